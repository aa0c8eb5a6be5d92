"""`python -m tests.tapes FOLDER [--json]`: play every tape of a case and print what a person would have seen."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from pathlib import Path

from tests.faults.console import fast_folder
from tests.tapes.play import Played, play


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tapes", description=__doc__)
    parser.add_argument("folder", type=Path, help="a case's folder, with its input-tape*.json")
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    tapes = sorted(asked.folder.glob("input-tape*.json"))
    if not tapes:
        parser.error(f"{asked.folder} holds no input-tape*.json.")
    found = [_play(tape) for tape in tapes]
    if asked.json:
        print(json.dumps({played.tape: played.as_values() for played in found}, indent=1))
    else:
        for played in found:
            _tell(played)


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
