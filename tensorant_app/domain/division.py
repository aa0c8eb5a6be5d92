"""How the rows of a version are divided: what a person asked for, in the form that is stored with the version."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tensorant_app.domain.leakage import Keep
from tensorant_app.domain.splits import Counts, Fractions, Shares
from trainer.contract import Split

REPLY = "reply"
"""Divide alike by the reply's own text, where replies are labels."""
MOST_VALUES = 200
"""More different values than this are no classes."""


@dataclass(frozen=True, slots=True)
class Division:
    shares: Shares
    seed: int
    keep: Keep = Keep.BEGINNINGS
    """What never stands on two sides."""
    group_by: str = ""
    """A field of the rows: rows with an equal value stay together."""
    stratify_by: str = ""
    """A field, or `REPLY`: every value is divided alike."""
    files: Mapping[Split, str] = field(default_factory=dict)
    """Splits that are a file of their own → the id of its import; the other rows are divided into the other splits."""

    @property
    def into(self) -> Collection[Split]:
        return [split for split in Split if split not in self.files]

    def stored(self) -> dict[str, Any]:
        kind = "fractions" if isinstance(self.shares, Fractions) else "counts"
        assert isinstance(self.shares, Fractions | Counts)
        return {
            kind: asdict(self.shares),
            "seed": self.seed,
            "keep": self.keep.value,
            **({"group_by": self.group_by} if self.group_by else {}),
            **({"stratify_by": self.stratify_by} if self.stratify_by else {}),
            **({"files": {split.value: name for split, name in self.files.items()}} if self.files else {}),
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Division:
        return cls(
            Fractions(**stored["fractions"]) if "fractions" in stored else Counts(**stored["counts"]),
            stored["seed"],
            Keep(stored.get("keep", Keep.COPIES)),
            stored.get("group_by", ""),
            stored.get("stratify_by", ""),
            {Split(split): name for split, name in stored.get("files", {}).items()},
        )


def value_of(example: Mapping[str, Any], name: str) -> str | None:
    """A field of a stored example as a text to compare; None where the row has none."""
    value = example.get(name)
    return value if isinstance(value, str) or value is None else json.dumps(value, sort_keys=True)
