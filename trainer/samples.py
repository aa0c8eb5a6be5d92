"""Lets the model answer a few validation rows and pinned prompts at each evaluation, so that its progress can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from trainer.chat import encode_prompt
from trainer.contract import SAMPLES, Sample, TrainJob
from trainer.data import Example
from trainer.errors import TrainerError
from trainer.events import append_line, now
from trainer.generate import Limits, Question, answer_all
from trainer.questions import Task, answer_of, readable, task_of

if TYPE_CHECKING:
    from pathlib import Path

    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase

MOST_ROWS = 32
MOST_PROMPTS = 8
MAX_NEW_TOKENS = 64
BATCH = 8


@dataclass(frozen=True, slots=True)
class Samples:
    tokenizer: PreTrainedTokenizerBase
    stops: frozenset[int]
    prompts: Sequence[str]
    tasks: Sequence[Task]
    """Validation rows."""
    outputs: Path

    def take(self, model: PeftModel, step: int, heed: Callable[[], None]) -> dict[str, float]:
        """Answer all greedily; the pinned prompts go to samples.jsonl, the rows' scores are the answer.

        `heed` is called again and again, and may end the work.
        """
        pinned = [
            Question(encode_prompt(self.tokenizer, [{"role": "user", "content": p}], None, self.stops), [])
            for p in self.prompts
        ]
        questions = [*(task.question for task in self.tasks), *pinned]
        if not questions:
            return {}
        limits = Limits(self.stops, MAX_NEW_TOKENS, BATCH)
        replies = answer_all(model, questions, limits, lambda done: heed())
        for prompt, reply in zip(self.prompts, replies[len(self.tasks) :], strict=True):
            sample = Sample(now(), step, prompt, readable(self.tokenizer, reply.ids), reply.stopped)
            append_line(self.outputs / SAMPLES, json.dumps(asdict(sample), ensure_ascii=False))
        answers = [answer_of(task, reply, self.tokenizer, ()) for task, reply in zip(self.tasks, replies, strict=False)]
        if not answers:
            return {}
        return {
            "exact_match": sum(answer.exact for answer in answers) / len(answers),
            "token_f1": sum(answer.f1 for answer in answers) / len(answers),
        }


def samples_of(
    job: TrainJob,
    tokenizer: PreTrainedTokenizerBase,
    stops: frozenset[int],
    validation: Sequence[Example],
    outputs: Path,
) -> Samples:
    """Rows whose prompt leaves no room for an answer are passed over: they are trained all the same."""
    tasks = []
    for example in validation[:MOST_ROWS]:
        try:
            tasks.append(task_of(tokenizer, stops, example, (), MAX_NEW_TOKENS, job.options.context_length))
        except TrainerError:
            continue
    return Samples(tokenizer, stops, job.sample_prompts[:MOST_PROMPTS], tasks, outputs)
