"""A run from its job file to its adapter, and everything that may come between."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.trainer import processes
from tests.trainer.conftest import OPTIONS, Volume, animal_rows
from trainer.boot_guards import zip_adapter
from trainer.contract import (
    BOOT,
    CHECKPOINTS,
    CONSOLE,
    EVENTS,
    METRICS,
    RESULT,
    STATUS,
    Ask,
    AttemptKeys,
    Boot,
    Outcome,
    Phase,
    Status,
    Words,
    dump,
    hash_file,
    load,
    verify_folder,
    write_file,
)
from trainer.errors import exit_code_of
from trainer.uploaded import verify_zip

LAST = "checkpoints/step-000024"


def wait_for(path: Path, text: str = "", seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not come to hold {text!r}")


def weights_and_history(volume: Volume, keys: AttemptKeys) -> tuple[str, str, str]:
    folder = volume.root / keys.outputs / LAST
    state = json.loads((folder / "state.json").read_text())
    optimizer = hash_file(folder / "optimizer.safetensors").sha256
    return hash_file(folder / "adapter_model.safetensors").sha256, json.dumps(state, sort_keys=True), optimizer


def say(volume: Volume, keys: AttemptKeys, ask: Ask = Ask.NONE, deadline: str | None = None, seq: int = 1) -> None:
    write_file(volume.root / keys.inputs / CONSOLE, dump(Words(seq, ask, deadline)))


def test_a_run_learns_and_hands_over_an_adapter_with_its_manifest(volume: Volume, trained: AttemptKeys) -> None:
    result = volume.result(trained)
    losses = [line["loss"] for line in volume.lines(trained, METRICS) if "loss" in line]
    validations = [line for line in volume.lines(trained, METRICS) if "validation_loss" in line]

    assert (result.outcome, result.adapter, result.step, result.total_steps) == (Outcome.DONE, trained.adapter, 24, 24)
    assert len(losses) == 24
    assert losses[-1] < 0.75 * losses[0]
    assert [line["step"] for line in validations] == [6, 12, 18, 24]
    assert validations[-1]["validation_loss"] < validations[0]["validation_loss"]
    assert verify_folder(volume.root / trained.adapter).facts["revision"] == volume.base.revision


def test_every_step_has_a_line_with_its_figures_and_the_status_ends_with_the_last(
    volume: Volume, trained: AttemptKeys
) -> None:
    lines = [line for line in volume.lines(trained, METRICS) if "loss" in line]
    status = load(Status, (volume.root / trained.outputs / STATUS).read_text())

    assert [line["step"] for line in lines] == list(range(1, 25))
    assert {"epoch", "learning_rate", "grad_norm", "tokens_per_second", "seconds"} <= lines[0].keys()
    assert lines[0]["learning_rate"] == OPTIONS.learning_rate
    assert (status.phase, status.step, status.epoch, status.loss) == (Phase.ENDED, 24, 4.0, lines[-1]["loss"])
    assert status.validation_loss is not None


def test_older_checkpoints_keep_their_adapter_and_only_the_last_can_be_resumed(
    volume: Volume, trained: AttemptKeys
) -> None:
    folder = volume.root / trained.outputs / CHECKPOINTS
    names = sorted(path.name for path in folder.glob("step-*"))

    assert names == ["step-000006", "step-000012", "step-000018", "step-000024"]
    for name in names:
        files = verify_folder(folder / name).files
        assert "adapter_model.safetensors" in files
        assert ("optimizer.safetensors" in files) == (name == names[-1])


def test_the_adapter_holds_no_path_of_this_machine_and_names_the_public_base(
    volume: Volume, trained: AttemptKeys
) -> None:
    folder = volume.root / trained.adapter
    config = json.loads((folder / "adapter_config.json").read_text())

    assert (config["base_model_name_or_path"], config["revision"]) == ("tests/tiny-llama", volume.base.revision)
    assert {"tokenizer.json", "chat_template.jinja", "README.md"} <= {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        assert volume.base.folder.encode() not in path.read_bytes(), path.name
        assert str(volume.root).encode() not in path.read_bytes(), path.name


def test_a_run_killed_in_the_middle_goes_on_as_if_it_had_never_been(volume: Volume, trained: AttemptKeys) -> None:
    keys = volume.add_run("killed")
    process = processes.start(volume.arguments("train", keys), log=volume.log(keys), patch="slow_steps")
    wait_for(volume.root / keys.outputs / METRICS, '"step": 14')
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(10)

    assert volume.run("train", keys) == 0

    boot = load(Boot, (volume.root / keys.outputs / BOOT).read_text())
    kinds = [line["kind"] for line in volume.lines(keys, EVENTS)]
    assert weights_and_history(volume, keys) == weights_and_history(volume, trained)
    assert boot.boot == 2
    assert "restarted" in kinds
    assert next(line for line in volume.lines(keys, EVENTS) if line["kind"] == "resumed")["step"] == 12
    assert volume.result(keys).boot == 2
    last = {line["step"]: line["loss"] for line in volume.lines(keys, METRICS) if "loss" in line}
    assert last == {line["step"]: line["loss"] for line in volume.lines(trained, METRICS) if "loss" in line}


def test_a_paused_run_is_resumed_by_the_next_attempt_in_the_middle_of_an_epoch(
    volume: Volume, trained: AttemptKeys
) -> None:
    first = volume.add_run("paused", 1)
    process = processes.start(volume.arguments("train", first), log=volume.log(first), patch="slow_steps")
    wait_for(volume.root / first.outputs / METRICS, '"step": 8')
    say(volume, first, Ask.PAUSE)
    process.join(20)
    paused = volume.result(first)

    second = volume.add_run("paused", 2, resume_from=(first.outputs,))
    assert volume.run("train", second) == 0

    assert (process.exitcode, paused.outcome) == (0, Outcome.PAUSED)
    assert 8 <= paused.step < 24
    assert volume.result(second).outcome is Outcome.DONE
    # A pause at the end of an epoch leaves its validation to the next attempt.
    steps = [line["step"] for line in volume.lines(second, METRICS) if "loss" in line]
    assert steps == list(range(paused.step + 1, 25))
    assert weights_and_history(volume, second) == weights_and_history(volume, trained)


def test_a_second_process_leaves_at_once_while_the_first_holds_the_lock(volume: Volume) -> None:
    keys = volume.add_run("held")
    process = processes.start(volume.arguments("train", keys), log=volume.log(keys), patch="slow_steps")
    boot = volume.root / keys.outputs / BOOT
    wait_for(boot)
    holder = boot.read_text()

    code = volume.run("train", keys)

    assert code == 0
    assert process.is_alive()
    assert boot.read_text() == holder
    assert str(process.pid) in holder
    process.terminate()  # SIGTERM counts as stop
    process.join(20)
    assert (process.exitcode, volume.result(keys).outcome) == (0, Outcome.STOPPED)


def test_an_attempt_with_a_result_is_never_trained_again(volume: Volume, trained: AttemptKeys) -> None:
    before = {path: path.stat().st_mtime_ns for path in (volume.root / trained.outputs).rglob("*")}

    code = volume.run("train", trained)

    assert code == 0
    assert {path: path.stat().st_mtime_ns for path in (volume.root / trained.outputs).rglob("*")} == before


def test_an_adapter_that_is_finished_but_has_no_result_is_taken_as_it_is(volume: Volume, trained: AttemptKeys) -> None:
    keys = volume.add_run("finished")
    (volume.root / keys.adapter).parent.mkdir(parents=True)
    (volume.root / keys.adapter).symlink_to(volume.root / trained.adapter)

    code = volume.run("train", keys)

    assert code == 0
    assert volume.result(keys).outcome is Outcome.DONE
    assert not (volume.root / keys.outputs / METRICS).exists()


def test_a_third_start_on_one_machine_fails(volume: Volume) -> None:
    keys = volume.add_run("restarted")
    write_file(volume.root / keys.outputs / BOOT, dump(Boot("tune-restarted", 1, 2, 1, "1", "x", "2026-01-01")))

    code = volume.run("train", keys)

    failure = volume.result(keys).failure
    assert code == exit_code_of(volume.result(keys).failure.code)
    assert failure is not None
    assert (failure.code, "3 times" in failure.message) == ("restarted_too_often", True)


def test_a_deadline_that_has_passed_ends_the_run_with_a_checkpoint(volume: Volume) -> None:
    keys = volume.add_run("late")
    process = processes.start(volume.arguments("train", keys), log=volume.log(keys), patch="slow_steps")
    wait_for(volume.root / keys.outputs / METRICS, '"step": 2')
    say(volume, keys, deadline=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    process.join(20)

    result = volume.result(keys)
    assert (process.exitcode, result.outcome) == (0, Outcome.OVERRUN)
    assert (
        verify_folder(volume.root / keys.outputs / CHECKPOINTS / f"step-{result.step:06d}").facts["step"] == result.step
    )

    # On a disk of its own that checkpoint is what a person carries over.
    zip_adapter(volume.root, volume.root / keys.outputs / RESULT, print)
    assert volume.result(keys).unfinished == result.step
    facts = verify_zip(volume.root / "data/adapter.zip", base=Path(volume.base.folder))
    assert facts["base"] == volume.base.repo_id


def test_a_run_that_hangs_past_its_deadline_is_ended_by_its_watchdog(volume: Volume) -> None:
    keys = volume.add_run("hanging")
    process = processes.start(volume.arguments("train", keys), log=volume.log(keys), patch="hang")
    wait_for(volume.root / keys.outputs / STATUS, '"training"')
    say(volume, keys, deadline=datetime.now(UTC).isoformat())
    process.join(20)

    assert (process.exitcode, volume.result(keys).outcome) == (0, Outcome.OVERRUN)


def test_a_loss_that_is_no_number_fails_before_the_weights_change(volume: Volume) -> None:
    keys = volume.add_run("nan")

    code = volume.run("train", keys, patch="not_finite")

    failure = volume.result(keys).failure
    assert code == exit_code_of(volume.result(keys).failure.code)
    assert failure is not None
    assert failure.code == "not_finite"
    assert failure.message.startswith("The loss was not a finite number at step 1")
    assert not (volume.root / keys.outputs / METRICS).exists()


def test_rows_that_cannot_be_trained_are_all_named_before_the_model_is_loaded(volume: Volume) -> None:
    rows = [
        *animal_rows(3, seed=5),
        {"messages": [{"role": "user", "content": "hello"}]},
        "no JSON",
        *animal_rows(1, 6),
    ]
    rows[1]["messages"][1]["content"] = "long " * 500
    key = volume.add_split("broken", rows)
    keys = volume.add_run("broken", train=key)

    code = volume.run("train", keys)

    failure = volume.result(keys).failure
    assert code == exit_code_of(volume.result(keys).failure.code)
    assert failure is not None
    assert failure.code == "row_error"
    assert failure.message.startswith("3 rows cannot be used. Row 2 of the train split has 2,5")
    assert "Row 4 of the train split, messages[0]: there is no assistant reply" in failure.message
    assert "Row 5 of the train split is not a conversation" in failure.message
    assert "model_loaded" not in [line["kind"] for line in volume.lines(keys, EVENTS)]


def test_no_rows_are_nothing_to_train(volume: Volume) -> None:
    keys = volume.add_run("empty", train=volume.add_split("empty", []))

    volume.run("train", keys)

    failure = volume.result(keys).failure
    assert failure is not None
    assert failure.code == "nothing_to_train"


@pytest.mark.parametrize("missing", ["train", "evaluate"])
def test_a_job_file_that_cannot_be_read_is_told_on_stderr(volume: Volume, missing: str) -> None:
    keys = AttemptKeys.of("runs", f"no-{missing}", 1)
    (volume.root / keys.inputs).mkdir(parents=True)

    code = volume.run(missing, keys)

    assert code == 2
    assert "The job file could not be read" in volume.log(keys).read_text()
    assert not (volume.root / keys.outputs / RESULT).exists()


def test_a_quantised_base_is_trained_and_its_adapter_verified(volume: Volume) -> None:
    keys = volume.add_run("quantised", options=replace(OPTIONS, method="qlora", epochs=1))

    assert volume.run("train", keys, verify=True) == 0, volume.log(keys).read_text()

    assert volume.result(keys).outcome is Outcome.DONE
    assert verify_folder(volume.root / keys.adapter).facts["step"] == 6


def test_a_full_disk_fails_the_run_and_the_next_attempt_goes_on_from_the_checkpoint_before(
    volume: Volume, trained: AttemptKeys
) -> None:
    first = volume.add_run("full", 1)
    code = volume.run("train", first, patch="disk_full_at_second_checkpoint")
    failure = volume.result(first).failure

    second = volume.add_run("full", 2, resume_from=(first.outputs,))
    assert volume.run("train", second) == 0

    assert code == 50
    assert failure is not None
    assert failure.code == "disk_full"
    resumed = next(line for line in volume.lines(second, EVENTS) if line["kind"] == "resumed")
    assert resumed["checkpoint"] == f"{first.outputs}/{CHECKPOINTS}/step-000006"
    assert weights_and_history(volume, second) == weights_and_history(volume, trained)
