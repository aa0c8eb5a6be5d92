"""The work of one evaluation: answer every test row with the base alone or with an adapter, by one code path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.attempt import Attempt, Ending
from trainer.base import load_model, load_tokenizer, stop_tokens
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
from trainer.questions import Task, answer_of, answer_room, task_of
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def evaluate(job: EvaluateJob, attempt: Attempt, watch: Watchdog) -> Ending:
    tokenizer = load_tokenizer(job.base)
    stops = stop_tokens(job.base, tokenizer)
    examples = read_examples(attempt.volume / job.test, merges_system=_merges_system(job, attempt.volume))
    if not examples:
        raise TrainerError("nothing_to_train", what="the test split has no rows")
    tasks = _tasks(job, tokenizer, stops, examples, watch)
    model = _load(job, attempt.volume)
    watch.check()
    watch.enter(Phase.EVALUATING)

    def tick(done: int) -> None:
        watch.update(done=done, total=len(tasks))
        watch.check()

    limits = Limits(stops, answer_room(job.max_new_tokens, job.labels, tokenizer), job.batch_size)
    replies = answer_all(model, [task.question for task in tasks], limits, tick)
    answers = [answer_of(task, reply, tokenizer, job.labels) for task, reply in zip(tasks, replies, strict=True)]
    return _written(attempt, answers)


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


def _merges_system(job: EvaluateJob, volume: Path) -> bool:
    """An adapter is asked as it was trained, whatever the job says."""
    if job.adapter is None:
        return job.merge_system
    try:
        return job.merge_system or bool(verify_folder(volume / job.adapter).facts.get("merge_system"))
    except BadManifest as error:
        raise TrainerError("adapter_invalid", what=str(error)) from error


def _load(job: EvaluateJob, volume: Path) -> PreTrainedModel | PeftModel:
    model = load_model(job.base)
    if job.adapter is None:
        return model
    from peft import PeftModel

    folder = volume / job.adapter
    try:
        facts = verify_folder(folder).facts
    except BadManifest as error:
        raise TrainerError("adapter_invalid", what=str(error)) from error
    if facts.get("revision") != job.base.revision:
        raise TrainerError("adapter_invalid", what=f"it was trained on {facts.get('base')} at {facts.get('revision')}")
    return PeftModel.from_pretrained(model, folder)


def _written(attempt: Attempt, answers: Sequence[Answer]) -> Ending:
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
    attempt.journal.event("evaluated", rows=len(answers), **scores)
    key = f"{attempt.keys.outputs}/{ANSWERS}"
    return Ending(Outcome.DONE, answers=key, answers_sha256=hash_file(path).sha256, scores=scores)
