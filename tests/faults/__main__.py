"""`python -m tests.faults --seeds 200 [--processes 4] [--first 0] [--mutants | --mutant NAME]`: histories full of faults."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field

from tests.faults.campaign import Found, campaign, quiet
from tests.faults.mutants import MUTANTS
from tests.faults.processes import in_real_time
from tests.runpod_emulator import Fault

_SIDE_BY_SIDE = 10
"""Histories in real time: most of it they wait."""
_MOST_SEEDS = 200
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
    """Those in real time wait most of it; the others fill their pauses."""
    began, books = time.monotonic(), _Books()
    seeds = range(asked.first, asked.first + asked.seeds)
    real = range(asked.first, asked.first + asked.processes)
    with in_real_time(real, min(_SIDE_BY_SIDE, len(real))) if real else nullcontext(iter(())) as in_processes:
        for found in campaign(seeds, asked.workers, asked.mutant, gives_way=bool(real)):
            books.enter(found)
        cpu = books.seconds
        for found in in_processes:
            books.enter(found)
    if real:
        print(f"{len(real)} histories with processes, {(books.seconds - cpu) / len(real):.0f} s each")
    print(f"runs ended: {dict(books.ends)}")
    if seeds:
        never = [fault.name for fault in Fault if fault.name not in books.struck]
        print(f"faults that never struck: {never or 'none'}")
    each, wall = cpu / max(len(seeds), 1), time.monotonic() - began
    verdict = dict(books.broken) or "every promise kept"
    print(
        f"{len(seeds)} histories, {books.struck.total()} faults struck, {wall:.0f} s, {each:.2f} CPU s each: {verdict}"
    )
    return 1 if books.broken else 0


@dataclass(slots=True)
class _Books:
    """What all histories came to."""

    seconds: float = 0.0
    struck: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)

    def enter(self, found: Found) -> None:
        self.seconds += found.seconds
        self.struck.update(found.faults)
        self.ends.update(found.ends)
        if found.promise:
            self.broken[found.promise] += 1
            _tell(found)


def _try_mutants(asked: argparse.Namespace) -> int:
    """In turn, the histories of each until one catches it."""
    missed, began = [], time.monotonic()
    for name, mutant in MUTANTS.items():
        histories = campaign(range(asked.first, asked.first + _MOST_SEEDS), asked.workers, name)
        caught = next((found for found in histories if found.promise in mutant.breaks), None)
        histories.close()
        if caught is None:
            missed.append(name)
            print(f"{name}: NOT caught. {mutant.what}", flush=True)
        else:
            print(f"{name}: caught by seed {caught.seed}, {caught.promise}: {caught.words.splitlines()[0]}", flush=True)
    verdict = f"not caught: {missed}" if missed else "every one was caught"
    print(f"{len(MUTANTS)} planted faults, {time.monotonic() - began:.0f} s: {verdict}")
    return 1 if missed else 0


def _tell(found: Found) -> None:
    print(f"seed {found.seed}: {found.promise} is broken: {found.words}")
    for line in found.log:
        print(f"    {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
