"""Answers many prompts greedily and scores fixed answers, reading what all prompts share only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from transformers import DynamicCache

from trainer.base import attends_fully

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

    Model = PreTrainedModel | PeftModel


@dataclass(frozen=True, slots=True)
class Question:
    prompt: list[int]
    choices: list[list[int]]
    """The tokens of fixed answers, each with its stop token; empty where there are none."""


@dataclass(frozen=True, slots=True)
class Reply:
    ids: list[int]
    """Without the stop token."""
    stopped: bool
    likelihoods: list[float]
    """For each choice the summed log-probability of all its tokens, the stop token too."""


@dataclass(frozen=True, slots=True)
class Limits:
    stops: frozenset[int]
    max_new_tokens: int
    batch_size: int


@dataclass(slots=True)
class _Batch:
    """Rows side by side: the shared prefix, then each row's own tokens filled on the right, then what it writes."""

    cache: DynamicCache
    seen: torch.Tensor
    """(rows, tokens in the cache): 1 for a token, 0 for filling."""
    lengths: torch.Tensor
    """Real tokens of each row so far."""
    logits: torch.Tensor
    """(rows, vocabulary): what comes next."""


@torch.no_grad()
def answer_all(model: Model, questions: Sequence[Question], limits: Limits, tick: Callable[[int], None]) -> list[Reply]:
    """In the order of the questions; `tick` is told how many are answered and may raise to end the work."""
    model.eval()
    if not attends_fully(model):
        return _one_by_one(model, questions, limits, tick)
    shared = _shared_prefix(questions)
    prefix = _read_prefix(model, questions[0].prompt[:shared]) if questions else None
    by_length = sorted(range(len(questions)), key=lambda i: len(questions[i].prompt))
    replies: dict[int, Reply] = {}
    for first in range(0, len(by_length), limits.batch_size):
        chunk = by_length[first : first + limits.batch_size]
        answered = _answer_batch(model, [questions[i] for i in chunk], prefix, shared, limits)
        replies |= dict(zip(chunk, answered, strict=True))
        tick(len(replies))
    return [replies[i] for i in range(len(questions))]


def _one_by_one(
    model: Model, questions: Sequence[Question], limits: Limits, tick: Callable[[int], None]
) -> list[Reply]:
    """For models with sliding windows, whose cache can neither hold filling nor be cut back."""
    replies = []
    for question in questions:
        scores = [_score_plainly(model, question.prompt, choice) for choice in question.choices]
        batch = _read_prompts(model, [question], _read_prefix(model, []), 0)
        ((ids, stopped),) = _write(model, batch, limits)
        replies.append(Reply(ids, stopped, scores))
        tick(len(replies))
    return replies


def _score_plainly(model: Model, prompt: Sequence[int], choice: Sequence[int]) -> float:
    ids = torch.tensor([[*prompt, *choice]], device=model.device)
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=len(choice) + 1).logits[0, :-1].float()
    wanted = torch.tensor(list(choice), device=model.device)
    return logits.log_softmax(dim=-1).gather(1, wanted[:, None]).sum().item()


def _answer_batch(
    model: Model, questions: Sequence[Question], prefix: DynamicCache | None, shared: int, limits: Limits
) -> list[Reply]:
    batch = _read_prompts(model, questions, prefix, shared)
    likelihoods = _score_choices(model, batch, questions)
    written = _write(model, batch, limits)
    return [Reply(ids, stopped, scores) for (ids, stopped), scores in zip(written, likelihoods, strict=True)]


def _shared_prefix(questions: Sequence[Question]) -> int:
    """At least one token of every prompt stays its own: its logits are what comes next."""
    limit = min((len(q.prompt) for q in questions), default=1) - 1
    count = 0
    while count < limit and len({q.prompt[count] for q in questions}) == 1:
        count += 1
    return count


def _read_prefix(model: Model, ids: Sequence[int]) -> DynamicCache:
    cache = DynamicCache(config=model.config)
    if ids:
        model(input_ids=torch.tensor([list(ids)], device=model.device), cache=cache, logits_to_keep=1)
    return cache


def _read_prompts(model: Model, questions: Sequence[Question], prefix: DynamicCache | None, shared: int) -> _Batch:
    cache = deepcopy(prefix)
    assert cache is not None, "the prefix is read before the first batch"
    if shared:
        cache.batch_repeat_interleave(len(questions))
    own = [q.prompt[shared:] for q in questions]
    width = max(len(ids) for ids in own)
    ids = torch.tensor([ids + [0] * (width - len(ids)) for ids in own], device=model.device)
    lengths = torch.tensor([len(ids) for ids in own], device=model.device)
    places = torch.arange(width, device=model.device)
    real = (places[None] < lengths[:, None]).long()
    seen = torch.cat([torch.ones(len(own), shared, dtype=torch.long, device=model.device), real], dim=1)
    ends = sorted({len(row) - 1 for row in own})
    logits = model(
        input_ids=ids,
        attention_mask=seen,
        position_ids=(shared + places)[None].expand(len(own), -1),
        cache=cache,
        logits_to_keep=torch.tensor(ends, device=model.device),
    ).logits
    picked = torch.tensor([ends.index(len(row) - 1) for row in own], device=model.device)
    return _Batch(cache, seen, lengths + shared, logits[torch.arange(len(own), device=model.device), picked].float())


def _score_choices(model: Model, batch: _Batch, questions: Sequence[Question]) -> list[list[float]]:
    """All choices of a row follow its prompt in one pass, each seeing prompt and itself; the cache stays as it was."""
    if not any(q.choices for q in questions):
        return [[] for _ in questions]
    fed = [[(number, at) for number, ids in enumerate(q.choices) for at in range(len(ids) - 1)] for q in questions]
    first = torch.log_softmax(batch.logits, dim=-1)
    scores = [[first[line, ids[0]].item() for ids in q.choices] for line, q in enumerate(questions)]
    if not any(fed):
        return scores
    logits = _choice_logits(model, batch, questions, fed)
    batch.cache.crop(-max(len(places) for places in fed))
    for line, (question, places) in enumerate(zip(questions, fed, strict=True)):
        if not places:
            continue
        rows = logits[line, : len(places)].float()
        wanted = torch.tensor([question.choices[number][at + 1] for number, at in places], device=rows.device)
        parts = rows.gather(1, wanted[:, None])[:, 0] - rows.logsumexp(dim=-1)
        for (number, _), part in zip(places, parts.tolist(), strict=True):
            scores[line][number] += part
    return scores


def _choice_logits(
    model: Model, batch: _Batch, questions: Sequence[Question], fed: Sequence[Sequence[tuple[int, int]]]
) -> torch.Tensor:
    width = max(len(places) for places in fed)
    ids = torch.zeros(len(fed), width, dtype=torch.long)
    segments = torch.full((len(fed), width), -1)
    depth = torch.zeros(len(fed), width, dtype=torch.long)
    for line, (question, places) in enumerate(zip(questions, fed, strict=True)):
        for column, (number, at) in enumerate(places):
            ids[line, column], segments[line, column], depth[line, column] = question.choices[number][at], number, at
    device = model.device
    same = (segments[:, :, None] == segments[:, None, :]).tril().to(device)
    past = batch.seen.bool()[:, None, :].expand(-1, width, -1)
    logits: torch.Tensor = model(
        input_ids=ids.to(device),
        attention_mask=torch.cat([past, same], dim=2)[:, None],
        position_ids=batch.lengths[:, None] + depth.to(device),
        cache=batch.cache,
    ).logits
    return logits


def _write(model: Model, batch: _Batch, limits: Limits) -> list[tuple[list[int], bool]]:
    """Greedy; rows that have stopped leave the batch once half of it has."""
    count = len(batch.lengths)
    written: list[list[int]] = [[] for _ in range(count)]
    stopped = [False] * count
    lines = list(range(count))
    for step in range(limits.max_new_tokens):
        tokens = batch.logits.argmax(dim=-1).tolist()
        for line, token in zip(lines, tokens, strict=True):
            stopped[line] = stopped[line] or token in limits.stops
            if not stopped[line]:
                written[line].append(token)
        alive = [place for place, line in enumerate(lines) if not stopped[line]]
        if not alive or step + 1 == limits.max_new_tokens:
            break
        if len(alive) <= len(lines) // 2:
            _keep(batch, alive)
            lines, tokens = [lines[place] for place in alive], [tokens[place] for place in alive]
        _feed(model, batch, tokens)
    return list(zip(written, stopped, strict=True))


def _keep(batch: _Batch, places: Sequence[int]) -> None:
    at = torch.tensor(places, device=batch.seen.device)
    batch.cache.batch_select_indices(at)
    batch.seen, batch.lengths, batch.logits = batch.seen[at], batch.lengths[at], batch.logits[at]


def _feed(model: Model, batch: _Batch, tokens: Sequence[int]) -> None:
    batch.seen = torch.cat([batch.seen, torch.ones_like(batch.seen[:, :1])], dim=1)
    logits = model(
        input_ids=torch.tensor(tokens, device=model.device)[:, None],
        attention_mask=batch.seen,
        position_ids=batch.lengths[:, None],
        cache=batch.cache,
    ).logits
    batch.logits = logits[:, -1].float()
    batch.lengths = batch.lengths + 1
