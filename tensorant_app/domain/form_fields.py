"""What a question of a form is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ON, OFF = "on", "off"


class Section(StrEnum):
    DATA = "data"
    TRIAL = "trial"
    METHOD = "method"
    GPU = "gpu"
    HYPERPARAMETERS = "hyperparameters"
    ADVANCED = "advanced"
    LIMITS = "limits"


@dataclass(frozen=True, slots=True)
class FormField:
    """One question of the form; what is typed is text, `on` or `off`."""

    name: str
    label: str
    section: Section
    default: str = ""
    hint: str = ""
    """The range in words."""
    why: str = ""
    unit: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """(value, label) where one of few is chosen; `on` and `off` for a switch."""
    off_because: str = ""
    """Why it has no effect yet, or with `is_rented` on this computer; empty where it has."""
    is_rented: bool = False
    """Counts only on a rented machine."""

    @property
    def is_switch(self) -> bool:
        return {value for value, _ in self.choices} == {ON, OFF}
