"""`python -m tests.faults --seeds 200 [--processes 4] [--first 0] [--mutants | --mutant NAME]`: histories full of faults."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from tests.faults.campaign import Found, campaign, quiet
from tests.faults.mutants import MUTANTS
from tests.faults.processes import in_real_time
from tests.runpod_emulator import Fault

_SIDE_BY_SIDE = 4
"""Histories in real time: most of it they wait."""
_MOST_SEEDS = 400
"""A mutant that so many histories do not catch is not caught."""


def main() -> None:
    asked = _arguments()
    quiet()
    sys.exit(_try_mutants(asked) if asked.mutants else _run(asked))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="histories in one process each")
    parser.add_argument(
        "--processes", type=int, default=0, help="histories in real time, with worker processes that are killed"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutants", action="store_true", help="plant each fault in turn: every one must be caught")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="plant this fault")
    return parser.parse_args()


def _run(asked: argparse.Namespace) -> int:
    began, seconds, struck = time.monotonic(), 0.0, Counter[str]()
    broken: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for found in campaign(range(asked.first, asked.first + asked.seeds), asked.workers, asked.mutant):
        seconds += found.seconds
        struck.update(found.faults)
        ends.update(found.ends)
        if found.promise:
            broken[found.promise] += 1
            _tell(found)
    if asked.processes:
        seconds_of_processes = 0.0
        for found in in_real_time(range(asked.first, asked.first + asked.processes), _SIDE_BY_SIDE):
            struck.update(found.faults)
            seconds_of_processes += found.seconds
            ends.update(found.ends)
            if found.promise:
                broken[found.promise] += 1
                _tell(found)
        print(f"{asked.processes} histories with processes, {seconds_of_processes / asked.processes:.0f} s each")
    wall = time.monotonic() - began
    each = seconds / max(asked.seeds, 1)
    print(f"runs ended: {dict(ends)}")
    if asked.seeds:
        print(f"faults that never struck: {[fault.name for fault in Fault if fault.name not in struck] or 'none'}")
    print(
        f"{asked.seeds} histories, {struck.total()} faults struck, {wall:.0f} s, {each:.2f} CPU s each: {dict(broken) or 'every promise kept'}"
    )
    return 1 if broken else 0


def _try_mutants(asked: argparse.Namespace) -> int:
    """In turn, the histories of each until one catches it."""
    missed = []
    for name, mutant in MUTANTS.items():
        seeds = range(asked.first, asked.first + _MOST_SEEDS)
        histories = campaign(seeds, asked.workers, name)
        caught = next((found for found in histories if found.promise in mutant.breaks), None)
        histories.close()
        if caught is None:
            missed.append(name)
        words = (
            f"caught by seed {caught.seed}: {caught.words.splitlines()[0]}" if caught else f"NOT caught. {mutant.what}"
        )
        print(f"{name}: {words}", flush=True)
    return 1 if missed else 0


def _tell(found: Found) -> None:
    print(f"seed {found.seed}: {found.promise} is broken: {found.words}")
    for line in found.log:
        print(f"    {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
