"""The fault campaign in short: some histories keep every promise, and a planted fault is caught."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.campaign import live
from tests.faults.mutants import MUTANTS

pytestmark = pytest.mark.slow

SEEDS = range(5000, 5012)
CAUGHT_BY = {
    "asks-again": range(7, 40),
    "no-sweep": range(40),
    "slots-for-all": range(40),
    "no-resume": range(13, 40),
}
"""A few of the planted faults; `make faults-mutants` tries them all."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_full_of_faults_keeps_every_promise(seed: int) -> None:
    found = live(seed)

    assert not found.promise, "\n".join([f"{found.promise}: {found.words}", *found.log])


def test_every_promise_has_a_fault_that_breaks_it() -> None:
    watched = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    promises = set(re.findall(r'require\([^"]*?"([a-z_]+)"', watched))

    assert len(promises) == 12
    assert promises == {name for mutant in MUTANTS.values() for name in mutant.breaks}


def test_the_same_seed_is_the_same_history() -> None:
    first, second = live(3), live(3)

    assert first.log == second.log
    assert first.ends == second.ends


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_planted_fault_is_caught(name: str) -> None:
    caught = next((seed for seed in CAUGHT_BY[name] if live(seed, name).promise in MUTANTS[name].breaks), None)

    assert caught is not None
