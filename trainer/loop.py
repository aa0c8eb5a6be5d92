"""The training loop: forward, sum the loss of what must be learned, step, watch for trouble, save."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from trainer import curves
from trainer.attempt import Attempt
from trainer.base import attends_fully, free_memory, save_memory
from trainer.batching import Pack, packs_of, window
from trainer.chat import Encoded
from trainer.checkpoint import Fits, Progress, Tensors, newest, restore_rng, rng_state, save
from trainer.contract import CHECKPOINTS, Plan, TrainOptions
from trainer.distributed import World
from trainer.errors import TrainerError, is_out_of_memory
from trainer.memory import free_bytes, heaviest, plan_memory, sizes_of
from trainer.step import fits_of as fits_of
from trainer.step import learning_rate as learning_rate
from trainer.step import make_optimizer as make_optimizer
from trainer.step import summed_loss
from trainer.watchdog import Halt, Watchdog

if TYPE_CHECKING:
    from peft import PeftModel

    from trainer.samples import Samples

T = TypeVar("T")

SAVE_SECONDS = 600.0
"""A lost machine costs at most this much work, however long an epoch is."""


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
    world: World = field(default_factory=World)
    samples: Samples | None = None
    saved_at: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        self.prepare()
        self._tell()
        while True:
            if self._evaluation_is_due():
                self._evaluate()
            if self._checkpoint_is_due():
                self._save(rng_state())
            if self.progress.step >= self.plan.total_steps or self.progress.stopped_early:
                return
            self._step()

    def prepare(self) -> bool:
        """Make the model ready to train; true where activations will be computed again to save memory."""
        self.model.train()
        longest = sorted(self.rows, key=lambda row: -len(row.ids))[: self.options.micro_batch_size]
        lines, columns = heaviest(self.packs(longest, share_prefix=self.options.dropout == 0))
        free = free_bytes(self.model.device)
        plan = plan_memory(sizes_of(self.model, self.options), lines, columns, free)
        saves = plan.checkpointing or self.progress.narrowed
        figures = {"activations_mb": plan.activations >> 20, "needed_mb": plan.needed >> 20, "free_mb": free >> 20}
        self.attempt.journal.event("memory_planned", tokens=plan.tokens, **figures, gradient_checkpointing=saves)
        if saves:
            save_memory(self.model)
        return saves

    def _step(self) -> None:
        self.train_on(window(self.rows, self.options, self.progress.step, self.world.size))

    def train_on(self, rows: Sequence[Encoded]) -> None:
        """One optimizer step."""
        began, rng = time.monotonic(), rng_state()
        learned = sum(row.trained_tokens for row in rows)
        loss = self._within_memory("training", rng, lambda: self._accumulate(rows, learned, rng))
        self.world.sum_gradients(self._trained())
        norm = torch.nn.utils.clip_grad_norm_(self._trained(), self.options.max_grad_norm).item()
        self._require_finite(loss, norm, rows, learned)
        rate = learning_rate(self.options, self.plan, self.progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self._record(loss, norm, rate, tokens=sum(len(row.ids) for row in rows), seconds=time.monotonic() - began)
        curves.note_loss(self.progress, loss, self.plan)

    def _accumulate(self, rows: Sequence[Encoded], learned: int, rng: Tensors) -> float:
        """Every supervised token of the whole step weighs the same, in a last short window too."""
        self.optimizer.zero_grad(set_to_none=True)
        self._obey(rng)
        total = torch.zeros((), dtype=torch.float64, device=self.model.device)
        # A shared prefix would share its dropout too, which is not what separate rows get.
        for pack in self.packs(self.world.share(rows), share_prefix=self.options.dropout == 0):
            if self.world.size == 1:
                self._obey(rng)
            loss = summed_loss(self.model, pack) / max(learned, 1)
            loss.backward()
            total += loss.detach()
        return self.world.sum(total).item()

    def packs(self, rows: Sequence[Encoded], *, share_prefix: bool) -> list[Pack]:
        """A model with sliding windows makes its own masks, which a pack's mask would replace: its rows are padded."""
        packing = self.options.packing and attends_fully(self.model)
        micro = self.progress.micro_batch_size or self.options.micro_batch_size
        return packs_of(rows, replace(self.options, packing=packing, micro_batch_size=micro), share_prefix=share_prefix)

    def _evaluate(self) -> None:
        rng = rng_state()
        self.model.eval()
        loss = self._within_memory("validation", rng, self.validation_loss)
        figures = {"validation_loss": loss}
        if self.samples is not None and self.world.rank == 0:
            figures |= self._within_memory("validation", rng, lambda: self._sampled(rng))
        self.model.train()
        curves.note_validation(self.progress, loss, self.options)
        self.attempt.journal.metric(self.progress.step, self._epoch(), **figures)
        self.watch.update(validation_loss=loss)
        if curves.overfits(self.progress):
            self.attempt.journal.event("overfitting", step=self.progress.step, best_step=self.progress.best_step)
        if self.progress.stopped_early:
            self.attempt.journal.event("stopped_early", step=self.progress.step, best_step=self.progress.best_step)

    def validation_loss(self) -> float:
        total = torch.zeros((), dtype=torch.float64, device=self.model.device)
        with torch.no_grad():
            for pack in self.packs(self.world.share(self.validation), share_prefix=True):
                if self.world.size == 1:
                    self._obey(rng_state())
                total += summed_loss(self.model, pack)
        return self.world.sum(total).item() / sum(row.trained_tokens for row in self.validation)

    def _sampled(self, rng: Tensors) -> dict[str, float]:
        """Where it is ended, the checkpoint knows of no validation at its step: the next attempt takes both."""
        assert self.samples is not None, "asked only where there are samples"
        heed = (lambda: self._obey(rng)) if self.world.size == 1 else (lambda: None)
        return self.samples.take(self.model, self.progress.step, heed)

    def _within_memory(self, stage: str, rng: Tensors, work: Callable[[], T]) -> T:
        """Once in a run memory may be too small: then fewer rows go through at a time, with the same result."""
        while True:
            try:
                return work()
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                text = str(error).strip().splitlines()[0]
            # Not in the except block: the traceback would hold the tensors that filled the memory (pytorch#18853).
            self.optimizer.zero_grad(set_to_none=True)
            free_memory()
            restore_rng(rng)
            self._narrow(stage, text, rng)

    def _narrow(self, stage: str, text: str, rng: Tensors) -> None:
        progress, step = self.progress, self.progress.step
        if progress.narrowed:
            place = f"{step} of {self.plan.total_steps}, epoch {self._epoch():.1f}"
            if stage == "validation":  # its step is done, and must not be lost with it
                self._save(rng)
            raise TrainerError(f"out_of_memory_in_{stage}", text=text.rstrip("."), place=place, kept=self._kept())
        progress.narrowed = True
        progress.micro_batch_size = max(1, self.options.micro_batch_size // 2)
        save_memory(self.model)
        self.attempt.journal.event("narrowed", stage=stage, step=step, micro_batch_size=progress.micro_batch_size)

    def _kept(self) -> str:
        found = newest([self.folder], self._fits())
        return f"the last complete checkpoint, {found.name}, is kept" if found else "no checkpoint was complete yet"

    def _obey(self, rng: Tensors) -> None:
        """What this window has done so far is dropped; it will be done again, with the same random numbers."""
        outcome = self.world.agree(self.watch.wanted(), self.model.device)
        if outcome is None:
            return
        self._save(rng)
        self.attempt.journal.event("halted", outcome=outcome.value, step=self.progress.step)
        raise Halt(outcome)

    def _save(self, rng: Tensors) -> None:
        if self.world.rank > 0:
            return
        made = save(self.folder, self.model, self.optimizer, self.progress, rng=rng, fits=self._fits())
        self.saved_at = time.monotonic()
        self.attempt.journal.event("checkpoint", step=self.progress.step, name=made.name)

    def _fits(self) -> Fits:
        return fits_of(len(self.rows), self.options, self.world.size)

    def _record(self, loss: float, norm: float, rate: float, *, tokens: int, seconds: float) -> None:
        self.progress.step += 1
        self.progress.losses.append(loss)
        speed = round(tokens / seconds, 2)
        values = {"loss": loss, "learning_rate": rate, "grad_norm": norm, "tokens_per_second": speed}
        self.attempt.journal.metric(self.progress.step, self._epoch(), **values, seconds=round(seconds, 4))
        self._tell(loss=loss, tokens_per_second=speed)

    def _tell(self, **figures: float) -> None:
        step = {"step": self.progress.step, "total_steps": self.plan.total_steps, "epoch": round(self._epoch(), 3)}
        self.watch.update(**step, **figures)

    def _require_finite(self, loss: float, norm: float, rows: Sequence[Encoded], learned: int) -> None:
        step = self.progress.step + 1
        try:
            curves.require_finite(loss, norm, learned=learned, step=step, rows=[row.row for row in rows])
        except TrainerError:
            # JSON has no word for such a number, and left out it would be missing from the chart.
            self.attempt.journal.event("not_finite", step=step, loss=str(loss), grad_norm=str(norm))
            raise

    def _trained(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    @property
    def folder(self) -> Path:
        return self.attempt.shared / CHECKPOINTS

    def _epoch(self) -> float:
        return self.progress.step / self.plan.steps_per_epoch

    def _is_scheduled(self) -> bool:
        options, step = self.options, self.progress.step
        every = self.plan.steps_per_epoch * options.checkpoint_every_epochs
        every = options.checkpoint_every_steps if options.checkpoint_unit == "steps" else every
        return step > 0 and (step % every == 0 or step == self.plan.total_steps)

    def _evaluation_is_due(self) -> bool:
        at_epoch_end = self.progress.step > 0 and self.progress.step % self.plan.steps_per_epoch == 0
        done = str(self.progress.step) in self.progress.validations
        return bool(self.validation) and not done and (at_epoch_end or self._is_scheduled())

    def _checkpoint_is_due(self) -> bool:
        progress = self.progress
        late = time.monotonic() - self.saved_at > SAVE_SECONDS
        best = progress.best_step == progress.step and self.options.adapter_from == "best"
        return progress.step > 0 and (late or best or progress.stopped_early or self._is_scheduled())
