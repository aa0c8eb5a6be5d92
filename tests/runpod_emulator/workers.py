"""What runs inside a Pod: the seam between the provider's part and the program that it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from trainer.contract import Failure

OLDEST = 8.0
"""Compute capability of the first GPUs that can train."""


@dataclass(frozen=True, slots=True)
class Container:
    """What a program finds when its container starts."""

    pod_id: str
    name: str
    command: Sequence[str]
    """Entry point and arguments, as they were asked for."""
    env: Mapping[str, str]
    """Secrets are filled in, the provider's own variables added."""
    mount: str | None
    """Path inside the container of the volume."""
    volume: Path | None
    """The folder that the volume is."""
    disk: Path
    """The container's own disk; wiped at each start."""
    boot: int
    """1 for the first start of this Pod."""
    gpus: int
    gpu: str
    """The type's name."""
    capability: str
    """Of its GPUs; 7.0 is too old to train on."""
    say: Callable[[datetime, str], None]
    """Write to the container's log."""
    release: Callable[[], None]
    """Ask the provider, with the Pod's own key, to delete this Pod."""

    def value_of(self, option: str) -> str | None:
        """The word behind `--option` in the command."""
        words = list(self.command)
        return words[words.index(option) + 1] if option in words[:-1] else None

    def here(self, text: str) -> str:
        """A text with the mount's path replaced by the folder that it is here."""
        if self.mount is None or self.volume is None:
            return text
        is_path = text == self.mount or text.startswith(f"{self.mount}/")
        return f"{self.volume}{text[len(self.mount) :]}" if is_path else text


@dataclass(frozen=True, slots=True)
class Exit:
    at: datetime
    code: int


class Worker(Protocol):
    """One container's program."""

    def advance(self, to: datetime) -> Exit | None:
        """Do what would have been done by then; an exit is told once, and the worker is not asked again."""
        ...

    def kill(self) -> None: ...


Start = Callable[[Container, datetime], Worker]


class Idle:
    """A program that does nothing and never ends."""

    def __init__(self, container: Container, at: datetime) -> None:
        container.say(at, "idle")

    def advance(self, to: datetime) -> Exit | None:
        return None

    def kill(self) -> None:
        pass


def gpu_trouble(container: Container) -> Failure | None:
    """What the image's boot would find."""
    if container.gpus == 0:
        return Failure("no_gpu", "The machine came up with 0 GPUs.", "Launch again: another host is given then.")
    if container.capability and float(container.capability) < OLDEST:
        what = f"This machine's {container.gpu} has compute capability {container.capability}; it needs {OLDEST}."
        return Failure("gpu_too_old", what, "Choose a GPU of the Ampere generation or newer.")
    return None
