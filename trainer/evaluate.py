"""The work of one evaluation: answer every test row with the base alone or with an adapter, by one code path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.attempt import Attempt, Ending
from trainer.base import load_model, load_tokenizer, precision_of, stop_tokens
from trainer.contract import (
    ANSWERS,
    Answer,
    BadManifest,
    EvaluateJob,
    Outcome,
    Phase,
    RowError,
    Split,
    dump,
    hash_file,
    verify_folder,
    write_file,
)
from trainer.data import Example, read_examples, rows_refused
from trainer.errors import TrainerError
from trainer.generate import Limits, answer_all
from trainer.lora import load_lora
from trainer.questions import Task, answer_of, answer_room, task_of
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Facts = Mapping[str, str | int | float | bool | None]


def evaluate(job: EvaluateJob, attempt: Attempt, watch: Watchdog) -> Ending:
    tokenizer = load_tokenizer(job.base)
    stops = stop_tokens(job.base, tokenizer)
    facts = _facts(job, attempt.volume)
    # An adapter is asked as it was trained, whatever the job says.
    merges = job.merge_system or bool(facts.get("merge_system"))
    examples = read_examples(attempt.volume / job.test, merges_system=merges)
    if not examples:
        raise TrainerError("nothing_to_train", what="the test split has no rows")
    tasks = _tasks(job, tokenizer, stops, examples, watch)
    model = _load(job, attempt.volume, facts)
    watch.check()
    watch.enter(Phase.EVALUATING)

    def tick(done: int) -> None:
        watch.update(done=done, total=len(tasks))
        watch.check()

    limits = Limits(stops, answer_room(job.max_new_tokens, job.labels, tokenizer), job.batch_size)
    replies = answer_all(model, [task.question for task in tasks], limits, tick)
    answers = [answer_of(task, reply, tokenizer, job.labels) for task, reply in zip(tasks, replies, strict=True)]
    return _written(attempt, answers, precision_of(model))


def _tasks(
    job: EvaluateJob,
    tokenizer: PreTrainedTokenizerBase,
    stops: frozenset[int],
    examples: Sequence[Example],
    watch: Watchdog,
) -> list[Task]:
    """Every row, or one error that lists every row that cannot be asked."""
    tasks, errors = [], []
    for done, example in enumerate(examples, start=1):
        place = f"Row {example.row} of the test split"
        try:
            tasks.append(task_of(tokenizer, stops, example, job.labels, job.max_new_tokens, job.context_length))
        except TrainerError as error:
            errors.append(RowError(Split.TEST, example.row, f"{place}: {error.facts['reason']}."))
        except (ValueError, KeyError, TypeError) as error:
            errors.append(RowError(Split.TEST, example.row, f"{place} is not a conversation: {error}."))
        watch.update(done=done, total=len(examples))
        watch.check()
    if errors:
        raise rows_refused(errors)
    return tasks


def _facts(job: EvaluateJob, volume: Path) -> Facts:
    """Of the adapter's manifest; none for the base alone."""
    if job.adapter is None:
        return {}
    try:
        facts = verify_folder(volume / job.adapter).facts
    except BadManifest as error:
        raise TrainerError("adapter_invalid", what=str(error)) from error
    if facts.get("revision") != job.base.revision:
        raise TrainerError("adapter_invalid", what=f"it was trained on {facts.get('base')} at {facts.get('revision')}")
    return facts


def _load(job: EvaluateJob, volume: Path, facts: Facts) -> PreTrainedModel | PeftModel:
    """An adapter stands on the base that it was trained on: quantised, where that one was."""
    model = load_model(job.base, quantised=facts.get("method") == "qlora")
    return load_lora(model, volume / job.adapter) if job.adapter else model


def _written(attempt: Attempt, answers: Sequence[Answer], precision: str) -> Ending:
    path = attempt.outputs / ANSWERS
    write_file(path, "".join(dump(answer) + "\n" for answer in answers))
    scores = {
        "exact_match": sum(a.exact for a in answers) / len(answers),
        "token_f1": sum(a.f1 for a in answers) / len(answers),
        "rouge_l": sum(a.rouge_l or 0.0 for a in answers) / len(answers),
        "did_not_stop": float(sum(not a.stopped for a in answers)),
    }
    if any(a.likely is not None for a in answers):
        scores["likelihood"] = sum(bool(a.likely_correct) for a in answers) / len(answers)
    attempt.journal.event("evaluated", rows=len(answers), base_precision=precision, **scores)
    key = f"{attempt.keys.outputs}/{ANSWERS}"
    return Ending(Outcome.DONE, answers=key, answers_sha256=hash_file(path).sha256, scores=scores)
