"""Shares one global batch between several GPUs of a machine: each takes its rows, and gradients and losses are summed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trainer.contract import Outcome

if TYPE_CHECKING:
    import torch

    from trainer.chat import Encoded

_OUTCOMES = tuple(Outcome)
PATIENCE = timedelta(hours=1)
"""The others wait while the first process answers sample rows; one that is gone is noticed by its heartbeat."""


@dataclass(frozen=True, slots=True)
class World:
    """This process among those that train together; alone, every method is a plain pass."""

    rank: int = 0
    size: int = 1

    def share(self, rows: Sequence[Encoded]) -> list[Encoded]:
        """This process's rows of a window."""
        return list(rows) if self.size == 1 else self.shares(rows)[self.rank]

    def shares(self, rows: Sequence[Encoded]) -> list[list[Encoded]]:
        """Each process's rows of a window. Dealt out by length, so that nobody waits for the longest."""
        by_length = sorted(rows, key=lambda row: len(row.ids))
        return [by_length[rank :: self.size] for rank in range(self.size)]

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """In one flat buffer. Losses were divided by the tokens of the whole window, so sums are what is wanted."""
        if self.size == 1:
            return
        import torch
        import torch.distributed as dist

        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.size > 1:
            import torch.distributed as dist

            dist.all_reduce(value)
        return value

    def agree(self, outcome: Outcome | None, device: torch.device) -> Outcome | None:
        """All end together, or those that go on would wait for ever."""
        if self.size == 1:
            return outcome
        import torch
        import torch.distributed as dist

        number = torch.tensor(0 if outcome is None else 1 + _OUTCOMES.index(outcome), device=device)
        dist.all_reduce(number, op=dist.ReduceOp.MAX)
        return _OUTCOMES[int(number.item()) - 1] if number else None


def join() -> World:
    """The world that `torchrun` describes in the environment; one process without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    import torch
    import torch.distributed as dist

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    return World(dist.get_rank(), size)
