"""The work of one evaluation: answer every test row with the base alone or with an adapter, by one code path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.attempt import Attempt, Ending
from trainer.base import load_model, load_tokenizer, stop_tokens
from trainer.chat import encode_prompt, encode_reply
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
from trainer.generate import Limits, Question, Reply, answer_all
from trainer.scores import exact_match, token_f1
from trainer.template import plain_messages
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Task:
    """A test row as the model is asked it."""

    row: int
    expected: str
    question: Question


def evaluate(job: EvaluateJob, attempt: Attempt, watch: Watchdog) -> Ending:
    tokenizer = load_tokenizer(job.base)
    stops = stop_tokens(job.base, tokenizer)
    examples = read_examples(attempt.volume / job.test)
    if not examples:
        raise TrainerError("nothing_to_train", what="the test split has no rows")
    tasks = _tasks(job, tokenizer, stops, examples, watch)
    model = _load(job, attempt.volume)
    watch.check()
    watch.enter(Phase.EVALUATING)

    def tick(done: int) -> None:
        watch.update(done=done, total=len(tasks))
        watch.check()

    limits = Limits(stops, job.max_new_tokens, job.batch_size)
    replies = answer_all(model, [task.question for task in tasks], limits, tick)
    answers = [_answer(task, reply, tokenizer, job.labels) for task, reply in zip(tasks, replies, strict=True)]
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
            tasks.append(_task(job, tokenizer, stops, example))
        except TrainerError as error:
            errors.append(RowError(Split.TEST, example.row, f"{place}: {error.facts['reason']}."))
        except (ValueError, KeyError, TypeError) as error:
            errors.append(RowError(Split.TEST, example.row, f"{place} is not a conversation: {error}."))
        watch.update(done=done, total=len(examples))
        watch.check()
    if errors:
        raise rows_refused(errors)
    return tasks


def _task(job: EvaluateJob, tokenizer: PreTrainedTokenizerBase, stops: frozenset[int], example: Example) -> Task:
    parsed = example.parse()
    messages, tools = parsed["messages"], parsed.get("tools")
    place = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    if place < 1:
        raise TrainerError("row_error", text="", turn=1, reason="it has no assistant reply that answers something")
    before, reply = messages[:place], messages[place]
    prompt = encode_prompt(tokenizer, before, tools, stops)
    if len(prompt) + job.max_new_tokens > job.context_length:
        reason = f"its prompt of {len(prompt):,} tokens and {job.max_new_tokens:,} new ones exceed the context length"
        raise TrainerError("row_error", text="", turn=place, reason=f"{reason} of {job.context_length:,}")
    choices = [encode_reply(tokenizer, before, _says(label), stops, tools) for label in job.labels]
    expected = _expected(tokenizer, reply, encode_reply(tokenizer, before, reply, stops, tools))
    return Task(example.row, expected, Question(prompt, choices))


def _says(label: str) -> Mapping[str, Any]:
    return {"role": "assistant", "content": label}


def _expected(tokenizer: PreTrainedTokenizerBase, reply: Mapping[str, Any], ids: Sequence[int]) -> str:
    """A tool call is compared in the template's own words."""
    content = plain_messages([reply])[0]["content"]
    if reply.get("tool_calls") or not isinstance(content, str):
        return _readable(tokenizer, ids)
    return _after_thought(content)


def _readable(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return _after_thought(str(tokenizer.decode(list(ids), skip_special_tokens=True)))


def _after_thought(text: str) -> str:
    return text.rpartition("</think>")[2].strip()


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


def _answer(task: Task, reply: Reply, tokenizer: PreTrainedTokenizerBase, labels: Sequence[str]) -> Answer:
    answer = _readable(tokenizer, reply.ids)
    likely = labels[max(range(len(labels)), key=reply.likelihoods.__getitem__)] if labels else None
    return Answer(
        row=task.row,
        expected=task.expected,
        answer=answer,
        exact=exact_match(task.expected, answer),
        f1=round(token_f1(task.expected, answer), 6),
        stopped=reply.stopped,
        likely=likely,
        likely_correct=None if likely is None else exact_match(task.expected, likely),
    )


def _written(attempt: Attempt, answers: Sequence[Answer]) -> Ending:
    path = attempt.outputs / ANSWERS
    write_file(path, "".join(dump(answer) + "\n" for answer in answers))
    scores = {
        "exact_match": sum(a.exact for a in answers) / len(answers),
        "token_f1": sum(a.f1 for a in answers) / len(answers),
    }
    if any(a.likely is not None for a in answers):
        scores["likelihood"] = sum(bool(a.likely_correct) for a in answers) / len(answers)
    attempt.journal.event("evaluated", rows=len(answers), **scores)
    key = f"{attempt.keys.outputs}/{ANSWERS}"
    return Ending(Outcome.DONE, answers=key, answers_sha256=hash_file(path).sha256, scores=scores)
