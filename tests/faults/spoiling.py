"""What becomes of files on the volume that nobody of ours touched: a report that cannot be read, weights that rot."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainer.contract import MANIFEST, RESULT, STATUS

_ADAPTER = f"runs/*/adapter/*/{MANIFEST}"
_RESULT, _STATUS = f"*/*/out/*/{RESULT}", f"*/*/out/*/{STATUS}"
_WEIGHTS = "adapter_model.safetensors"


@dataclass(slots=True)
class Spoiler:
    """Strikes the next file of a planned kind as soon as it is written, before the console can read it."""

    draw: random.Random
    volume: Path
    torn: set[Path] = field(default_factory=set)
    """Reports that were spoiled at some time."""
    damaged: set[Path] = field(default_factory=set)
    """Folders of adapters that do not match their manifests any more."""
    _planned: list[str] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def plan_torn_report(self) -> None:
        self._planned.append(self.draw.choice([_RESULT, _RESULT, _STATUS]))

    def plan_damage(self) -> None:
        self._planned.append(_ADAPTER)

    def strike(self) -> Iterator[str]:
        """Whatever was planned and can happen now; in words."""
        for pattern in [*self._planned]:
            found = sorted(path for path in self.volume.glob(pattern) if path not in self._seen)
            if not found:
                continue
            self._planned.remove(pattern)
            path = self.draw.choice(found)
            if pattern is _ADAPTER:
                self.damaged.add(_rot(path.parent))
            else:
                self.torn.add(path)
                path.write_text(self._tear(path.read_text()))
            yield f"  {path.relative_to(self.volume)} is spoiled"
        # A status is written again and again; the others once.
        self._seen.update(path for pattern in (_ADAPTER, _RESULT) for path in self.volume.glob(pattern))

    def clear(self) -> None:
        self._planned.clear()

    def _tear(self, text: str) -> str:
        """Cut short, or of a trainer that knows more words, or no words at all."""
        other = re.sub(r'"(phase|outcome)": ?"\w+"', r'"\1": "dreaming"', text)
        return self.draw.choice([text[: len(text) // 2], other, "", "null", text.replace("0", "\0")])


def _rot(folder: Path) -> Path:
    """The file keeps its length, so that only its hash can tell."""
    weights = folder / _WEIGHTS
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return folder
