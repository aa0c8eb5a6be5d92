"""What happens around the work: the check command, the lock, the heartbeat, the console's words, and wording of errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainer import errors
from trainer.attempt import Attempt, Ending, take
from trainer.contract import (
    BOOT,
    CONSOLE,
    EVENTS,
    STATUS,
    Ask,
    Boot,
    Outcome,
    Phase,
    Result,
    Status,
    Words,
    dump,
    load,
    write_file,
)
from trainer.errors import TrainerError, failure_of
from trainer.watchdog import Halt, Watchdog

ROOT = Path(__file__).resolve().parents[2]


def test_check_tells_in_one_line_what_the_machine_can_do() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "trainer", "check"], cwd=ROOT, env=environment, capture_output=True, text=True
    )

    (line,) = ended.stdout.splitlines()
    report = json.loads(line)
    assert (ended.returncode, report["ok"]) == (0, True), report
    assert {"torch", "transformers", "peft"} <= report["versions"].keys()
    assert report["device"] in ("cpu", "cuda")
    assert report["cores"] >= 1
    assert report["memory_mb"] > 500


def test_check_turns_trouble_into_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer import check

    monkeypatch.setattr(check, "LIBRARIES", ("torch", "not-a-library"))

    report = check.check()

    assert report["ok"] is False
    assert "not-a-library" in str(report["error"])


def test_no_heavy_library_is_loaded_before_the_lock_is_taken() -> None:
    heavy = "{'torch', 'transformers', 'peft', 'pyarrow', 'numpy', 'safetensors'}"
    code = f"import sys, trainer.__main__; print(sorted({heavy} & set(sys.modules)))"

    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"


def test_the_boot_names_this_very_process(attempt: Attempt) -> None:
    boot = load(Boot, (attempt.outputs / BOOT).read_text())

    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert (boot.pid, boot.pid_started, boot.boot) == (os.getpid(), started, 1)
    assert boot.host_boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_an_attempt_is_taken_once(attempt: Attempt) -> None:
    again = take(attempt.volume, attempt.keys, machine="tune-here", number=1)

    assert again is None


def test_the_first_result_stands(attempt: Attempt) -> None:
    assert attempt.finish(Ending(Outcome.OVERRUN)) is True
    assert attempt.finish(Ending(Outcome.DONE)) is False

    result = load(Result, (attempt.outputs / "result.json").read_text())
    assert (result.outcome, result.machine) == (Outcome.OVERRUN, "tune-here")
    assert result.peak_rss_mb > 10


def test_without_words_nothing_is_wanted(attempt: Attempt) -> None:
    watch = Watchdog(attempt)

    watch._listen()

    assert watch.wanted() is None
    watch.check()


@pytest.mark.parametrize(
    ("ask", "outcome"), [(Ask.PAUSE, Outcome.PAUSED), (Ask.STOP, Outcome.STOPPED), (Ask.NONE, None)]
)
def test_the_console_s_ask_is_what_is_wanted(attempt: Attempt, ask: Ask, outcome: Outcome | None) -> None:
    watch = Watchdog(attempt)
    write_file(attempt.inputs / CONSOLE, dump(Words(1, ask, None)))

    watch._listen()

    assert watch.wanted() is outcome


def test_a_higher_seq_replaces_the_word_and_a_lower_one_is_not_heard(attempt: Attempt) -> None:
    watch = Watchdog(attempt)
    late = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    for words in (Words(2, Ask.NONE, late), Words(1, Ask.STOP, None)):
        write_file(attempt.inputs / CONSOLE, dump(words))
        watch._listen()
    assert watch.wanted() is Outcome.OVERRUN

    write_file(attempt.inputs / CONSOLE, dump(Words(3, Ask.NONE, "2099-01-01T00:00:00+00:00")))
    watch._listen()

    assert watch.wanted() is None


def test_words_that_cannot_be_read_leave_the_last_ones(attempt: Attempt) -> None:
    watch = Watchdog(attempt)
    write_file(attempt.inputs / CONSOLE, dump(Words(1, Ask.PAUSE, None)))
    watch._listen()

    write_file(attempt.inputs / CONSOLE, '{"seq": 2, "ask":')
    watch._listen()

    with pytest.raises(Halt, match="paused"):
        watch.check()


def test_a_change_of_phase_is_told_at_once(attempt: Attempt) -> None:
    watch = Watchdog(attempt)
    watch.update(step=3, total_steps=9, loss=0.5)

    watch.enter(Phase.PACKAGING)

    status = load(Status, (attempt.outputs / STATUS).read_text())
    assert (status.phase, status.step, status.loss, status.machine) == (Phase.PACKAGING, 3, 0.5, "tune-here")


def test_a_torn_last_line_is_cut_off_before_the_journal_goes_on(attempt: Attempt) -> None:
    journal = replace(attempt.journal, boot=2)
    (attempt.outputs / EVENTS).write_text('{"kind": "started"}\n{"kind": "chec')

    journal.open()
    journal.event("restarted")

    lines = [json.loads(line) for line in (attempt.outputs / EVENTS).read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["started", "restarted"]
    assert (lines[1]["machine"], lines[1]["attempt"], lines[1]["boot"]) == ("tune-here", 1, 2)


def test_every_wording_is_made_of_whole_sentences() -> None:
    for code, wording in errors.WORDINGS.items():
        assert wording.advice.endswith("."), code
        assert wording.message.endswith((".", "{text}")), code


def test_memory_that_is_not_enough_is_known_by_either_of_its_names() -> None:
    import torch

    for error in (
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."),
        MemoryError(),
    ):
        assert failure_of(error).code == "out_of_memory"


def test_an_unforeseen_error_is_told_with_its_type() -> None:
    failure = failure_of(KeyError("x"))

    assert (failure.code, failure.message) == ("crashed", "KeyError: 'x'")
    assert "Read the log" in failure.advice


def test_an_expected_error_keeps_its_facts() -> None:
    error = TrainerError("disk_full", path="step-000004")

    assert (
        failure_of(error).message
        == "The disk was full while writing step-000004; the last complete checkpoint is kept."
    )
