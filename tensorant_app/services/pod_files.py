"""Files of a machine without a volume: given with its create call, and heard again from its log, into the copies here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tensorant_app.domain.errors import Denied
from tensorant_app.providers.base import FileStore, LogLine, MachineRequest
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services.connections import home_volume
from tensorant_app.services.machine_views import MachineView
from trainer.contract import (
    CONSOLE,
    EVENTS,
    FILES_VARIABLE,
    JOB,
    LOG,
    METRICS,
    MOST_PACKED,
    RESULT,
    SAMPLES,
    STATUS,
    TRIAL,
    Told,
    pack_files,
    read_told,
)

_HEARD = "heard.json"
_GROWING = frozenset({EVENTS, METRICS, SAMPLES})
_WHOLE = frozenset({STATUS, RESULT, TRIAL})
_SURELY_TOO_LARGE = 8 * MOST_PACKED
"""Bytes that no packing makes small enough; they are not even tried."""


def request_with_files(machine: MachineView) -> MachineRequest:
    """The create call with everything that the machine will read. `Denied`, before anything is sent, where that is too much."""
    volume, inputs = home_volume(), machine.inputs_key
    try:
        job = json.loads(_read(volume, f"{inputs}/{JOB}"))
        keys = [f"{inputs}/{JOB}", f"{inputs}/{CONSOLE}", job["train"], job["validation"]]
        packed = pack({key: _read(volume, key) for key in keys})
    except (OSError, ValueError, LookupError) as error:
        sentence = f"The run's files could not be packed for its Pod, so none was asked for: {error}. Launch it again."
        raise Denied(sentence) from error
    if packed is None:
        raise Denied("The run's files are too large for a Pod without a network volume. Connect one under Connections.")
    return replace(machine.request, environment={FILES_VARIABLE: packed})


def pack(files: Mapping[str, bytes]) -> str | None:
    """None where it is more than a create call takes."""
    if sum(len(data) for data in files.values()) > _SURELY_TOO_LARGE:
        return None
    packed = pack_files(files)
    return packed if len(packed) <= MOST_PACKED else None


def last_heard(machine: MachineView) -> str | None:
    """The cursor behind the last line that is kept; None before the first."""
    return _Journal.of(home_volume(), machine.outputs_key).cursor


def note_lines(machine: MachineView, lines: Iterable[LogLine]) -> None:
    """Put lines of the machine's log into the files that they tell of. The same lines twice change nothing."""
    home = home_volume()
    journal = _Journal.of(home, machine.outputs_key)
    for line in lines:
        journal.hear(line)
    journal.write(home, machine.outputs_key)


@dataclass(slots=True)
class _Journal:
    """How far a log was heard, and what it said since."""

    cursor: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """File → number of its next line."""
    bytes: dict[str, int] = field(default_factory=dict)
    """File → its length here."""
    new: dict[str, list[str]] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, home: FolderStore, outputs_key: str) -> _Journal:
        key = f"{outputs_key}/{_HEARD}"
        if home.size(key) is None:
            return cls()
        known: dict[str, Any] = json.loads(_read(home, key))
        return cls(known["cursor"], known["lines"], known["bytes"])

    def hear(self, line: LogLine) -> None:
        self.cursor = line.cursor or self.cursor
        if line.source != "container":
            return
        told = read_told(line.text)
        if told is None:
            self.new.setdefault(LOG, []).append(line.text)
        elif told.number is None and told.name in _WHOLE:
            self.whole[told.name] = told.text
        elif told.name in _GROWING:
            self._hear_line(told)

    def _hear_line(self, told: Told) -> None:
        """A container that began again tells everything again."""
        if told.number is None or told.number < self.lines.get(told.name, 0):
            return
        self.lines[told.name] = told.number + 1
        self.new.setdefault(told.name, []).append(told.text)

    def write(self, home: FolderStore, outputs_key: str) -> None:
        """Each file at the place that it had reached, then how far it is: a crash in between writes the same again."""
        for name, texts in self.new.items():
            data = "".join(f"{text}\n" for text in texts).encode()
            start = self.bytes.get(name, 0)
            home.write_on(f"{outputs_key}/{name}", start, data)
            self.bytes[name] = start + len(data)
        for name, text in self.whole.items():
            home.put(f"{outputs_key}/{name}", text.encode())
        known = {"cursor": self.cursor, "lines": self.lines, "bytes": self.bytes}
        home.put(f"{outputs_key}/{_HEARD}", json.dumps(known).encode())


def _read(volume: FileStore, key: str) -> bytes:
    with volume.open(key) as file:
        return file.read()
