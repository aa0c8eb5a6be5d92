"""`python -m tests.tapes FOLDER [--json]`: play every tape of a case and print what a person would have seen."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.faults.console import fast_folder
from tests.tapes.marks import Played
from tests.tapes.play import play
from tests.tapes.tape import BadTape


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tapes", description=__doc__)
    parser.add_argument("folder", type=Path, help="a case's folder, with its input-tape*.json; or one such file")
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    tapes = tapes_of(asked.folder)
    if not tapes:
        parser.error(f"{asked.folder} holds no input-tape*.json.")
    found: dict[str, dict[str, Any]] = {}
    for tape in tapes:
        try:
            played = _play(tape)
        except BadTape as error:
            found[tape.stem] = {"tape": tape.stem, "not_played": str(error)}
        else:
            found[tape.stem] = played.as_values()
            if not asked.json:
                _tell(played)
    if asked.json:
        print(json.dumps(found, indent=1))
    left_out = [str(one["not_played"]) for one in found.values() if "not_played" in one]
    if left_out:
        print("\n".join(left_out), file=sys.stderr)
    sys.exit(1 if len(left_out) == len(found) else 0)


def tapes_of(folder: Path) -> list[Path]:
    """Timelines of a trainer too: they are tapes whose provider has nothing to say."""
    if folder.is_file():
        return [folder]
    return [path for name in ("input-tape*.json", "input-timeline*.json") for path in sorted(folder.glob(name))]


def _play(tape: Path) -> Played:
    folder = fast_folder()
    try:
        return play(tape, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(played: Played) -> None:
    print(f"{played.tape}")
    for call, count in played.calls.items():
        print(f"  {count:5}  {call}")
    for mark in played.marks:
        slot = "slot held" if mark.slot_held else "no slot"
        badge = f" + {mark.badge}" if mark.badge else ""
        money = f"${mark.estimate} estimated" + (f", ${mark.actual} actual" if mark.actual else "")
        print(f"  {mark.at}  {mark.label}{badge} [{mark.machine or 'no machine'}, {slot}] {money}  {mark.event}")
        if mark.reason:
            print(f"      {mark.reason}")
    print(f"  {json.dumps(played.facts)}\n")


if __name__ == "__main__":
    main()
