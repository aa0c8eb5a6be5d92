"""A run's settings: every field with its label, default and range, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tensorant_app.domain.errors import Invalid


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a draft fixes for good. The ranges stand in `RANGES` and `CHOICES`."""

    method: str = "lora"
    epochs: int = 3
    learning_rate: float = 2e-4
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    micro_batch_size: int = 4
    accumulation: int = 4
    context_length: int = 2048
    schedule: str = "cosine"
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    seed: int = 42
    packing: bool = True
    checkpoint_unit: str = "epochs"
    checkpoint_every_epochs: int = 1
    checkpoint_every_steps: int = 100
    evaluate_at_checkpoints: bool = True
    early_stop: bool = False
    early_stop_patience: int = 2
    adapter_from: str = "last"
    maximum_runtime_hours: float = 6.0
    """All attempts together."""

    @property
    def effective_batch(self) -> int:
        return self.micro_batch_size * self.accumulation

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RunSettings:
        """The settings, or `Invalid` with a sentence for every field that is out of its range."""
        known = {field.name: field for field in fields(cls)}
        wrong = {name: f"There is no setting called {name}." for name in values if name not in known}
        for name, value in values.items():
            if name in known and (sentence := _complaint(name, value)):
                wrong[name] = sentence
        if wrong:
            raise Invalid(wrong)
        return cls(**values)

    def as_values(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Range:
    label: str
    low: float
    high: float
    is_whole: bool = True


RANGES: dict[str, Range] = {
    "epochs": Range("Epochs", 1, 100),
    "learning_rate": Range("Learning rate", 1e-6, 1e-2, is_whole=False),
    "rank": Range("LoRA rank", 1, 256),
    "alpha": Range("LoRA alpha", 1, 512),
    "dropout": Range("LoRA dropout", 0, 0.5, is_whole=False),
    "micro_batch_size": Range("Micro batch size", 1, 64),
    "accumulation": Range("Gradient accumulation", 1, 256),
    "context_length": Range("Context length", 128, 131_072),
    "warmup_ratio": Range("Warm-up ratio", 0, 0.5, is_whole=False),
    "weight_decay": Range("Weight decay", 0, 1, is_whole=False),
    "max_grad_norm": Range("Max gradient norm", 0.1, 10, is_whole=False),
    "seed": Range("Seed", 0, 2**31 - 1),
    "checkpoint_every_epochs": Range("Checkpoint every", 1, 50),
    "checkpoint_every_steps": Range("Checkpoint every (steps)", 10, 10_000),
    "early_stop_patience": Range("Early stop patience", 1, 10),
    "maximum_runtime_hours": Range("Maximum runtime", 0.1, 72, is_whole=False),
}

CHOICES: dict[str, tuple[str, tuple[str | bool, ...]]] = {
    "method": ("Training method", ("lora", "qlora")),
    "schedule": ("Schedule", ("cosine", "linear", "constant")),
    "packing": ("Packing", (True, False)),
    "checkpoint_unit": ("Checkpoint unit", ("epochs", "steps")),
    "evaluate_at_checkpoints": ("Evaluate at checkpoints", (True, False)),
    "early_stop": ("Early stop", (True, False)),
    "adapter_from": ("Adapter from", ("last", "best")),
}


def show_number(value: float) -> str:
    """As people type it: 2,048 and 2e-4, never 0.0002."""
    if float(value).is_integer():
        return f"{int(value):,}"
    if abs(value) < 0.02:
        mantissa, _, exponent = f"{value:.6e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:g}"


def _complaint(name: str, value: object) -> str | None:
    if name in CHOICES:
        label, choices = CHOICES[name]
        if value in choices and type(value) is type(choices[0]):
            return None
        return f"{label} must be one of {', '.join(str(choice) for choice in choices)}."
    return complain(RANGES[name], value)


def complain(allowed: Range, value: object) -> str | None:
    """What is wrong with a number, as a sentence; None where nothing is."""
    is_number = isinstance(value, int) or (isinstance(value, float) and not allowed.is_whole)
    if isinstance(value, bool) or not is_number:
        return f"{allowed.label} must be a {'whole ' if allowed.is_whole else ''}number."
    assert isinstance(value, int | float)
    if not allowed.low <= value <= allowed.high:
        return f"{allowed.label} must be between {show_number(allowed.low)} and {show_number(allowed.high)}."
    return None
