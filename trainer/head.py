"""The loss of what must be learned, from hidden states and in pieces: no vocabulary is too large for the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PIECE_BYTES = 64 << 20
"""Of scores in float32. About four times as much lives while a piece is worked on, however many tokens are learned."""
SCALES = ("final_logit_softcapping", "logits_scaling", "logit_scale", "lm_head_multiplier")
"""What model families call the number by which they change their scores after the head."""

Finish = Callable[[torch.Tensor], torch.Tensor]
_finishes: WeakKeyDictionary[torch.nn.Module, Finish | None] = WeakKeyDictionary()
"""Of each model, found once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What reaches a model's head, and how scores are made of it."""

    hidden: torch.Tensor
    """(lines, columns, width)."""
    scores: Finish


def read(model: PreTrainedModel, **inputs: Any) -> Reading | None:
    """One pass whose head works on a single place; None where the model's way from there to its scores is not known."""
    caught: list[torch.Tensor] = []
    head = model.get_output_embeddings()

    def catch(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        caught.append(arguments[0])
        return (arguments[0][:, :1], *arguments[1:])

    if _finishes.get(model, _plain) is None:
        return None
    hook = head.register_forward_pre_hook(catch)
    try:
        own = model(**inputs).logits
    finally:
        hook.remove()
    if model not in _finishes:
        _finishes[model] = _found(model, head(caught[0][:, :1]).detach(), own.detach())
    finish = _finishes[model]
    return Reading(caught[0], lambda hidden: finish(head(hidden))) if finish else None


def summed_cross_entropy(hidden: torch.Tensor, labels: torch.Tensor, scores: Finish, vocabulary: int) -> torch.Tensor:
    """Of (tokens, width) hidden states; `vocabulary` is the number of scores of each. The head itself is frozen."""
    size = max(1, PIECE_BYTES // (4 * vocabulary))
    loss: torch.Tensor = _InPieces.apply(hidden, labels, scores, size)
    return loss


class _InPieces(torch.autograd.Function):
    """The gradient of each piece is taken at once, while its scores are there, so that none are kept and none made twice."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, labels: torch.Tensor, scores: Finish, size: int) -> torch.Tensor:
        learns = ctx.needs_input_grad[0]
        losses: list[torch.Tensor] = []
        gradients: list[torch.Tensor] = []
        for piece, wanted in zip(hidden.split(size), labels.split(size), strict=True):
            with torch.set_grad_enabled(learns):
                leaf = piece.detach().requires_grad_(learns)
                loss = cross_entropy(_exact(scores(leaf)), wanted, reduction="sum")
            losses.append(loss.detach())
            gradients += torch.autograd.grad(loss, leaf) if learns else ()
        ctx.save_for_backward(*gradients)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return torch.cat(ctx.saved_tensors) * upstream, None, None, None


def _exact(scores: torch.Tensor) -> torch.Tensor:
    return scores if scores.dtype == torch.float64 else scores.float()


def _plain(scores: torch.Tensor) -> torch.Tensor:
    return scores


def _found(model: PreTrainedModel, raw: torch.Tensor, own: torch.Tensor) -> Finish | None:
    """The one that makes of the head's scores what the model itself makes of them."""
    close = 1e-2 if own.dtype in (torch.bfloat16, torch.float16) else 1e-5
    for finish in _candidates(model):
        if torch.allclose(finish(raw).float(), own.float(), rtol=close, atol=close):
            return finish
    return None


def _candidates(model: PreTrainedModel) -> Iterator[Finish]:
    """What the configuration names comes first: a soft cap hardly changes small scores."""
    config = model.config.get_text_config()
    for value in (getattr(config, name, None) for name in SCALES):
        if value:
            yield _capped(value)
            yield _times(value)
            yield _times(1 / value)
    yield _plain


def _capped(cap: float) -> Finish:
    return lambda scores: torch.tanh(scores / cap) * cap


def _times(factor: float) -> Finish:
    return lambda scores: scores * factor
