"""Faults that a test process may ask for."""

from __future__ import annotations

import errno
import time

from trainer import package
from trainer.contract import TrainJob, sync_folder


def publish_unverified() -> None:
    """For tests of what comes before: the real check has tests of its own."""

    def publish(unchecked: package.Unchecked, job: TrainJob) -> None:
        unchecked.aside.rename(unchecked.target)
        sync_folder(unchecked.target.parent)

    package.publish = publish


def slow_steps() -> None:
    """Time for a test to kill or to speak."""
    from trainer import loop

    fast = loop.summed_loss

    def summed_loss(model, pack):  # type: ignore[no-untyped-def]
        time.sleep(0.05)
        return fast(model, pack)

    loop.summed_loss = summed_loss


def hang() -> None:
    """A forward pass that never comes back, and a watchdog that waits a second instead of a minute."""
    from trainer import loop, watchdog

    loop.summed_loss = lambda model, pack: time.sleep(600)
    watchdog.Watchdog.__init__.__defaults__ = (0.1, 0.5, *watchdog.Watchdog.__init__.__defaults__[2:])


def patient() -> None:
    """A watchdog that takes nothing for a hang, however busy the computer is."""
    from trainer import watchdog

    defaults = watchdog.Watchdog.__init__.__defaults__
    watchdog.Watchdog.__init__.__defaults__ = (defaults[0], 3600.0, *defaults[2:])


def not_finite() -> None:
    from trainer import loop

    real = loop.summed_loss
    loop.summed_loss = lambda model, pack: real(model, pack) * float("nan")


def disk_full_at_second_checkpoint() -> None:
    from trainer import checkpoint

    real, writes = checkpoint.write_tensors, []

    def write_tensors(path, tensors):  # type: ignore[no-untyped-def]
        writes.append(path)
        if len(writes) > 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, tensors)

    checkpoint.write_tensors = write_tensors


def out_of_memory_for_more_than_two_rows() -> None:
    """As a GPU that holds two rows of a forward pass and no more."""
    from trainer import loop

    fits = loop.summed_loss

    def summed_loss(model, pack):  # type: ignore[no-untyped-def]
        if len(pack.rows) > 2:
            raise MemoryError("CUDA out of memory. Tried to allocate 9.27 GiB")
        return fits(model, pack)

    loop.summed_loss = summed_loss


def hardly_any_memory_free() -> None:
    from trainer import loop

    loop.free_bytes = lambda device: 64 << 20


def out_of_memory_in_validation() -> None:
    """Training fits; without gradients, as in validation, nothing does."""
    import torch

    from trainer import loop

    fits = loop.summed_loss

    def summed_loss(model, pack):  # type: ignore[no-untyped-def]
        if not torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.27 GiB.")
        return fits(model, pack)

    loop.summed_loss = summed_loss


def pause_while_answering() -> None:
    """The console asks for it in the moment in which answers are taken at a checkpoint."""
    from trainer import samples
    from trainer.contract import Outcome
    from trainer.watchdog import Watchdog

    real = samples.answer_all

    def answer_all(*given):  # type: ignore[no-untyped-def]
        Watchdog.wanted = lambda self: Outcome.PAUSED
        return real(*given)

    samples.answer_all = answer_all


def validation_that_worsens_after_the_second() -> None:
    from trainer import loop

    measured = iter([3.0, 2.0, 2.5, 2.6, 2.7, 2.8])
    loop.Loop.validation_loss = lambda self: next(measured)
