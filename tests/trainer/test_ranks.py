"""Several processes of one attempt: they end together, the first answers for all, and a lost one is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainer.conftest import OPTIONS, Volume
from trainer.attempt import Attempt, Ending, take
from trainer.contract import (
    BOOT,
    CHECKPOINTS,
    RANKS,
    RESULT,
    STATUS,
    TRIAL,
    AttemptKeys,
    Boot,
    Failure,
    Outcome,
    Plan,
    Result,
    TrialLimits,
    TrialReport,
    dump,
    load,
    verify_folder,
)
from trainer.ranks import SILENT, answer_for_all, lost_rank

ROOT = Path(__file__).parents[2]
KEYS = AttemptKeys.of("runs", "here", 1)
STOPPED = Ending(Outcome.STOPPED, step=3)
CUT_OFF = Ending(Outcome.FAILED, Failure("crashed", "Connection closed by peer.", ""))


@pytest.fixture
def first(tmp_path: Path) -> Attempt:
    attempt = take(tmp_path, KEYS, machine="here", number=1)
    assert attempt is not None
    return attempt


@pytest.fixture
def second(first: Attempt) -> Attempt:
    attempt = take(first.volume, KEYS, machine="here", number=1, rank=1)
    assert attempt is not None
    (attempt.outputs / STATUS).write_text("{}")
    return attempt


def test_each_process_has_a_lock_and_a_folder_of_its_own(first: Attempt, second: Attempt) -> None:
    assert first.outputs == second.shared
    assert second.outputs == first.outputs / RANKS / "1"
    assert take(first.volume, KEYS, machine="here", number=1, rank=1) is None


def test_where_all_are_heard_a_stop_is_a_stop(first: Attempt, second: Attempt) -> None:
    assert lost_rank(first, 2) is None
    assert answer_for_all(first, STOPPED, 2) == STOPPED


def test_the_reason_of_the_process_that_failed_is_the_reason_of_all(first: Attempt, second: Attempt) -> None:
    second.finish(Ending(Outcome.FAILED, Failure("out_of_memory", "The memory was too small.", "Halve the batch.")))

    told = answer_for_all(first, CUT_OFF, 2)

    assert told.failure == Failure("out_of_memory", "On GPU 2 of 2: The memory was too small.", "Halve the batch.")


def test_one_that_is_silent_without_a_result_is_lost(first: Attempt, second: Attempt) -> None:
    long_ago = time.time() - SILENT - 1
    os.utime(second.outputs / STATUS, (long_ago, long_ago))

    told = answer_for_all(first, STOPPED, 2)

    assert told.outcome is Outcome.FAILED
    assert told.failure is not None
    assert told.failure.message == "The process on GPU 2 of 2 ended without a word, so the others could not go on."


def test_its_own_failure_is_not_put_on_others(first: Attempt, second: Attempt) -> None:
    second.finish(CUT_OFF)
    own = Ending(Outcome.FAILED, Failure("out_of_memory", "The memory was too small.", "Halve the batch."))

    assert answer_for_all(first, own, 2) == own


def test_one_that_is_just_dying_is_waited_for(first: Attempt, second: Attempt) -> None:
    """Its connections are closed some time before the system calls it dead."""
    boot = load(Boot, (second.outputs / BOOT).read_text())
    with subprocess.Popen(["sleep", "0.5"]) as dying:
        started = Path(f"/proc/{dying.pid}/stat").read_text().rpartition(")")[2].split()[19]
        (second.outputs / BOOT).write_text(dump(replace(boot, pid=dying.pid, pid_started=started)))

        told = answer_for_all(first, CUT_OFF, 2)

    assert told.failure is not None
    assert told.failure.code == "rank_lost"


def test_of_several_the_one_that_died_is_named_and_not_those_that_it_cut_off(first: Attempt, second: Attempt) -> None:
    third = take(first.volume, KEYS, machine="here", number=1, rank=2)
    assert third is not None
    second.finish(CUT_OFF)
    long_ago = time.time() - SILENT - 1
    (third.outputs / STATUS).write_text("{}")
    os.utime(third.outputs / STATUS, (long_ago, long_ago))

    told = answer_for_all(first, CUT_OFF, 3)

    assert told.failure is not None
    assert told.failure.message.startswith("The process on GPU 3 of 3 ended without a word")


def test_its_own_crash_is_told_where_the_others_were_only_cut_off(first: Attempt, second: Attempt) -> None:
    second.finish(CUT_OFF)
    own = Ending(Outcome.FAILED, Failure("crashed", "KeyError: 'rows'", ""))

    assert answer_for_all(first, own, 2) == own


def test_what_an_earlier_start_left_is_not_the_word_of_this_one(first: Attempt, second: Attempt) -> None:
    second.finish(STOPPED)
    os.close(second.lock)

    again = take(first.volume, KEYS, machine="here", number=1, rank=1)

    assert again is not None
    assert again.boot == 2
    assert not (again.outputs / RESULT).exists()


class TestProcesses:
    """Two real ones on the CPU."""

    @pytest.fixture
    def keys(self, volume: Volume, request: pytest.FixtureRequest) -> AttemptKeys:
        return volume.add_run(
            request.node.name[-20:], options=replace(OPTIONS, dropout=0.0, epochs=6, evaluate_at_checkpoints=False)
        )

    def start(self, volume: Volume, keys: AttemptKeys, command: str = "train") -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "trainer", *volume.arguments(command, keys), "--processes", "2"]
        with volume.log(keys).open("wb") as log:
            return subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log)

    @pytest.mark.slow
    def test_they_train_one_adapter_with_one_result(self, volume: Volume, keys: AttemptKeys) -> None:
        assert self.start(volume, keys).wait(300) == 0, volume.log(keys).read_text()[-3000:]

        result = load(Result, (volume.root / keys.outputs / RESULT).read_text())
        assert (result.outcome, result.adapter) == (Outcome.DONE, keys.adapter)
        verify_folder(volume.root / keys.adapter)

    @pytest.mark.slow
    def test_their_trial_measures_what_both_do_at_once(self, volume: Volume) -> None:
        options = replace(OPTIONS, dropout=0.0, evaluate_at_checkpoints=False)
        limits = TrialLimits(rows=16, validation_rows=4, steps=6)
        keys = volume.add_run("trial-of-two", options=options, trial=limits)

        assert self.start(volume, keys, "trial").wait(300) == 0, volume.log(keys).read_text()[-3000:]

        report = load(TrialReport, (volume.root / keys.outputs / TRIAL).read_text())
        assert (report.completed, report.steps, report.validation_rows) == (True, 6, 4)
        assert report.full_run_steps == Plan.of(44, options, 2).total_steps
        assert report.prediction is not None
        assert volume.result(keys).outcome is Outcome.DONE

    @pytest.mark.slow
    def test_one_that_is_killed_ends_the_attempt_with_its_reason(self, volume: Volume, keys: AttemptKeys) -> None:
        process = self.start(volume, keys)
        outputs = volume.root / keys.outputs
        wait_for(lambda: (outputs / CHECKPOINTS).exists() or process.poll() is not None)
        os.kill(load(Boot, (outputs / RANKS / "1" / BOOT).read_text()).pid, signal.SIGKILL)
        process.wait(300)

        result = load(Result, (outputs / RESULT).read_text())
        assert result.outcome is Outcome.FAILED, volume.log(keys).read_text()[-3000:]
        assert result.failure is not None
        assert "GPU 2 of 2" in result.failure.message


def wait_for(condition: Callable[[], bool], seconds: float = 200) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.1)
