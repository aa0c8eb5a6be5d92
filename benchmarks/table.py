"""`make bench`: runs every subject of this folder (or the one named), prints one table and writes results.json."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

HELP = ("table", "seed", "trainer_work", "compute_times")
"""Files that measure nothing by themselves."""
FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, and the same of a peer measured in the same run, where there is one."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def ratio(self) -> float | None:
        return round(self.value / self.peer_value, 3) if self.peer_value else None


def subjects(only: str | None) -> Iterator[str]:
    for module in pkgutil.iter_modules([str(FOLDER)]):
        if module.name not in HELP and only in (None, module.name):
            yield module.name


def main(only: str | None) -> int:
    names = list(subjects(only))
    if not names:
        print(f"There is no benchmark called {only}.", file=sys.stderr)
        return 1
    rows: list[Row] = []
    for name in names:
        rows += importlib.import_module(f"benchmarks.{name}").measure()
    write(rows)
    show(rows)
    return 0


def write(rows: list[Row]) -> None:
    """Rows of an earlier run that this one did not measure are kept."""
    path = FOLDER / "results.json"
    kept = json.loads(path.read_text()) if path.exists() else []
    names = {row.name for row in rows}
    kept = [row for row in kept if row["name"] not in names]
    path.write_text(json.dumps([*kept, *({**asdict(row), "ratio": row.ratio} for row in rows)], indent=1) + "\n")


def show(rows: list[Row]) -> None:
    table = Table("name", "value", "unit", "peer", "peer value", "ratio", box=None)
    for row in rows:
        peer_value = "" if row.peer_value is None else f"{row.peer_value:,.3f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.name, f"{row.value:,.3f}", row.unit, row.peer or "", peer_value, ratio)
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
