"""Reading a machine's log: its last words for a sentence, and everything where a log is all that it can say."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from tensorant_app.providers.base import LogLine, Provider
from tensorant_app.services import pod_files
from tensorant_app.services.machines import MachineView

_SECONDS = 15.0
_HEAR_SECONDS = 5.0
"""Of lines that come as they are written; every few seconds it goes on behind the last."""
_MOST_LINES = 6_000
"""At one look; the next goes on."""
_QUOTED = 3
"""Lines of the provider's log in a sentence."""


def hear(machine: MachineView, provider: Provider) -> None:
    """Bring home what a machine without a volume has said since it was heard last; raises what the provider raises."""
    if machine.provider_id is not None:
        lines = read_some(provider.logs(machine.provider_id, pod_files.last_heard(machine)), _HEAR_SECONDS)
        pod_files.note_lines(machine, lines)


def read_some(stream: Iterator[LogLine], seconds: float = _SECONDS) -> list[LogLine]:
    """A log that is written all the time never ends by itself."""
    ends = time.monotonic() + seconds
    return list(itertools.takewhile(lambda line: time.monotonic() < ends, itertools.islice(stream, _MOST_LINES)))


def quote(lines: list[LogLine]) -> str:
    """The last different lines, the provider's own before the container's."""
    of_system = [line.text.strip() for line in lines if line.source == "system" and line.text.strip()]
    texts = of_system or [line.text.strip() for line in lines if line.text.strip()]
    last = list(dict.fromkeys(reversed(texts)))[:_QUOTED]
    return " / ".join(f"“{text[:300]}”" for text in reversed(last))
