"""The training loop: forward, sum the loss of what must be learned, step, watch for trouble, save."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from trainer.attempt import Attempt
from trainer.base import attends_fully
from trainer.batching import Pack, packs_of, to_tensors, window
from trainer.chat import Encoded
from trainer.checkpoint import Fits, Progress, Tensors, rng_state, save
from trainer.contract import CHECKPOINTS, Outcome, Plan, TrainOptions
from trainer.errors import TrainerError
from trainer.watchdog import Halt, Watchdog

if TYPE_CHECKING:
    from peft import PeftModel

SMOOTHING = 0.9
DIVERGED_ABOVE = 3.0
DIVERGED_STEPS = 20
SAVE_SECONDS = 600.0
"""A lost machine costs at most this much work, however long an epoch is."""
NOISE = 0.1
"""Below this loss tripling is noise: a model that knows its rows by heart would count as diverged."""


@dataclass(slots=True)
class Loop:
    """One run of the optimizer over all epochs, from where `progress` stands."""

    model: PeftModel
    rows: Sequence[Encoded]
    validation: Sequence[Encoded]
    options: TrainOptions
    plan: Plan
    optimizer: torch.optim.Optimizer
    progress: Progress
    attempt: Attempt
    watch: Watchdog
    saved_at: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        self.model.train()
        self._tell()
        while True:
            if self._at_epoch_end() and self.validation and str(self.progress.step) not in self.progress.validations:
                self._validate()
            if self._checkpoint_is_due():
                self._save(rng_state())
            if self.progress.step >= self.plan.total_steps:
                return
            self._step()

    def _step(self) -> None:
        began, rng = time.monotonic(), rng_state()
        rows = window(self.rows, self.options, self.progress.step)
        # A shared prefix would share its dropout too, which is not what separate rows get.
        packs = self._packs(rows, share_prefix=self.options.dropout == 0)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._accumulate(packs, rng)
        norm = torch.nn.utils.clip_grad_norm_(self._trained(), self.options.max_grad_norm).item()
        self._require_finite(loss, norm, rows)
        rate = learning_rate(self.options, self.plan, self.progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self._record(loss, norm, rate, tokens=sum(pack.real_tokens for pack in packs), seconds=time.monotonic() - began)
        self._watch_divergence()

    def _accumulate(self, packs: Sequence[Pack], rng: Tensors) -> float:
        """Every supervised token of the whole step weighs the same, in a last short window too."""
        learned = sum(len(pack.labels) for pack in packs)
        total = torch.zeros((), dtype=torch.float64, device=self.model.device)
        for pack in packs:
            if outcome := self.watch.wanted():
                self._halt(outcome, rng)
            loss = summed_loss(self.model, pack) / learned
            loss.backward()
            total += loss.detach()
        return total.item()

    def _packs(self, rows: Sequence[Encoded], *, share_prefix: bool) -> list[Pack]:
        """A model with sliding windows makes its own masks, which a pack's mask would replace: its rows are padded."""
        options = self.options if attends_fully(self.model) else replace(self.options, packing=False)
        return packs_of(rows, options, share_prefix=share_prefix)

    def _validate(self) -> None:
        self.model.eval()
        total, tokens = 0.0, 0
        with torch.no_grad():
            for pack in self._packs(self.validation, share_prefix=True):
                if outcome := self.watch.wanted():
                    self._halt(outcome, rng_state())
                total += summed_loss(self.model, pack).item()
                tokens += len(pack.labels)
        self.model.train()
        loss = total / tokens
        self.progress.validations[str(self.progress.step)] = loss
        self.attempt.journal.metric(self.progress.step, self._epoch(), validation_loss=loss)
        self.watch.update(validation_loss=loss)

    def _halt(self, outcome: Outcome, rng: Tensors) -> None:
        """What this window has done so far is dropped; it will be done again, with the same random numbers."""
        self._save(rng)
        self.attempt.journal.event("halted", outcome=outcome.value, step=self.progress.step)
        raise Halt(outcome)

    def _save(self, rng: Tensors) -> None:
        folder = self.attempt.outputs / CHECKPOINTS
        fits = fits_of(len(self.rows), self.options)
        made = save(folder, self.model, self.optimizer, self.progress, rng=rng, fits=fits)
        self.saved_at = time.monotonic()
        self.attempt.journal.event("checkpoint", step=self.progress.step, name=made.name)

    def _record(self, loss: float, norm: float, rate: float, *, tokens: int, seconds: float) -> None:
        self.progress.step += 1
        self.progress.losses.append(loss)
        values = {
            "loss": loss,
            "learning_rate": rate,
            "grad_norm": norm,
            "tokens_per_second": round(tokens / seconds, 2),
        }
        self.attempt.journal.metric(self.progress.step, self._epoch(), **values, seconds=round(seconds, 4))
        self._tell(loss=loss, tokens_per_second=values["tokens_per_second"])

    def _tell(self, **figures: float) -> None:
        step = {"step": self.progress.step, "total_steps": self.plan.total_steps, "epoch": round(self._epoch(), 3)}
        self.watch.update(**step, **figures)

    def _watch_divergence(self) -> None:
        progress, loss = self.progress, self.progress.losses[-1]
        smoothed = loss if progress.smoothed is None else SMOOTHING * progress.smoothed + (1 - SMOOTHING) * loss
        progress.smoothed = smoothed
        progress.best = smoothed if progress.best is None else min(progress.best, smoothed)
        warm = progress.step > self.plan.warmup_steps
        high = warm and smoothed > DIVERGED_ABOVE * max(progress.best, NOISE)
        progress.above = progress.above + 1 if high else 0
        if progress.above >= DIVERGED_STEPS:
            facts = {"smoothed": round(smoothed, 3), "best": round(progress.best, 3), "steps": progress.above}
            raise TrainerError("diverged", step=progress.step, **facts)

    def _require_finite(self, loss: float, norm: float, rows: Sequence[Encoded]) -> None:
        for what, value in (("loss", loss), ("gradient", norm)):
            if not math.isfinite(value):
                numbers = ", ".join(str(row) for row in sorted({row.row for row in rows})[:20])
                raise TrainerError("not_finite", what=what, step=self.progress.step + 1, rows=numbers)

    def _trained(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def _epoch(self) -> float:
        return self.progress.step / self.plan.steps_per_epoch

    def _at_epoch_end(self) -> bool:
        return self.progress.step > 0 and self.progress.step % self.plan.steps_per_epoch == 0

    def _checkpoint_is_due(self) -> bool:
        every = self.plan.steps_per_epoch * self.options.checkpoint_every_epochs
        step, late = self.progress.step, time.monotonic() - self.saved_at > SAVE_SECONDS
        return step > 0 and (late or step % every == 0 or step == self.plan.total_steps)


def summed_loss(model: PeftModel, pack: Pack) -> torch.Tensor:
    """Logits are made only where something is learned: elsewhere they would be most of the memory, for nothing."""
    tensors = to_tensors(pack, model.device)
    logits = model.get_base_model()(
        input_ids=tensors.ids,
        attention_mask=tensors.mask,
        position_ids=tensors.positions,
        logits_to_keep=tensors.columns,
        use_cache=False,
    ).logits
    picked = logits.flatten(0, 1)
    picked = picked if len(pack.ids) == 1 else picked[tensors.flat]
    return cross_entropy(picked.float(), tensors.labels, reduction="sum")


def make_optimizer(model: PeftModel, options: TrainOptions) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(trained, lr=options.learning_rate, weight_decay=options.weight_decay, fused=True)


def learning_rate(options: TrainOptions, plan: Plan, step: int) -> float:
    """Of the step counted from 0: a rise, then the schedule's way down, which never reaches 0 before the end."""
    if step < plan.warmup_steps:
        return options.learning_rate * (step + 1) / plan.warmup_steps
    done = (step - plan.warmup_steps) / (plan.total_steps - plan.warmup_steps)
    match options.schedule:
        case "cosine":
            return options.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        case "linear":
            return options.learning_rate * (1 - done)
        case _:
            return options.learning_rate


def fits_of(rows: int, options: TrainOptions) -> Fits:
    """A checkpoint of other rows, batches or matrices would put the rows in another order, or not load at all."""
    order = {"rows": rows, "global_batch": options.micro_batch_size * options.accumulation, "epochs": options.epochs}
    return order | {"rank": options.rank, "alpha": options.alpha, "seed": options.seed, "method": options.method}
