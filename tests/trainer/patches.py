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
