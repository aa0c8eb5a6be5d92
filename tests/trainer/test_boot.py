"""The image's entry point as a process of its own, with a trainer that a test writes down."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.runpod_emulator import Emulator
from tests.runpod_emulator.conftest import pod_body
from trainer.boot_teller import Teller
from trainer.contract import (
    CHECKPOINTS,
    CONSOLE,
    FILES_VARIABLE,
    JOB,
    LOG,
    LONGEST_TOLD,
    MANIFEST,
    METRICS,
    RESULT,
    Ask,
    AttemptKeys,
    Failure,
    Manifest,
    Outcome,
    Result,
    Told,
    Words,
    dump,
    load,
    pack_files,
    read_told,
    seal_folder,
)

ROOT = Path(__file__).resolve().parents[2]
KEYS = AttemptKeys.of("runs", "a", 1)
FINISH = """
    from pathlib import Path
    from trainer.contract import Outcome, Result, dump
    print("training", flush=True)
    Path("runs/a/out/1/result.json").write_text(dump(Result("tune-a", 1, 1, Outcome.DONE, "now", 1.0, 1, adapter=ADAPTER)))
"""


class Machine:
    """A volume, a trainer, and the containers that were started on it."""

    def __init__(self, folder: Path) -> None:
        self.volume = folder / "volume"
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TENSORANT_MOUNT": str(self.volume),
            "TENSORANT_MACHINE": "tune-a",
            "TENSORANT_TRAINER_PYTHON": str(self.programs / "trainer"),
            "TENSORANT_JOB_APPEARS": "1",
        }
        (self.volume / KEYS.inputs).mkdir(parents=True)
        (self.volume / KEYS.inputs / JOB).write_text("{}")
        self.trains(FINISH.replace("ADAPTER", "None"))

    def trains(self, code: str) -> None:
        """What the trainer does; each start leaves a line in `starts`."""
        note = 'open("starts", "a").write("start\\n")'
        self.program("trainer", f"#!{sys.executable}\n{note}\n{textwrap.dedent(code)}")

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def boots(self, **environment: str) -> subprocess.Popen[str]:
        command = ["train", "--volume", ".", "--job", f"{KEYS.inputs}/{JOB}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer.boot", *command],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    @property
    def starts(self) -> int:
        path = self.volume / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @property
    def log(self) -> str:
        path = self.volume / KEYS.outputs / LOG
        return path.read_text() if path.exists() else ""

    def result(self) -> Result:
        path = self.volume / KEYS.outputs / RESULT
        wait_for(path.exists)
        return load(Result, path.read_text())


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def test_it_trains_once_tells_both_logs_and_stays_up_until_it_is_told_to_end(machine: Machine) -> None:
    container = machine.boots()

    wait_for(lambda: "waits to be released" in machine.log)
    assert container.poll() is None
    container.terminate()
    said, _ = container.communicate(timeout=10)

    assert (container.returncode, machine.starts) == (0, 1)
    assert said == machine.log
    assert said.splitlines()[0] == "training"


def test_a_container_that_is_started_again_after_the_end_trains_nothing(machine: Machine) -> None:
    machine.boots()
    wait_for(lambda: "waits to be released" in machine.log)
    before = (machine.volume / KEYS.outputs / RESULT).stat()

    machine.boots()
    wait_for(lambda: "ended before" in machine.log)

    assert machine.starts == 1
    assert (machine.volume / KEYS.outputs / RESULT).stat().st_mtime_ns == before.st_mtime_ns


def test_a_trainer_that_dies_without_a_word_is_started_again_and_then_told_as_failed(machine: Machine) -> None:
    machine.trains('import os; print("no memory", flush=True); os.kill(os.getpid(), 9)')

    machine.boots()

    result = machine.result()
    assert (result.outcome, result.machine, result.attempt) == (Outcome.FAILED, "tune-a", 1)
    assert result.failure is not None
    assert "3 times without a result, the last time with code -9" in result.failure.message
    assert machine.starts == 3


def test_a_job_that_never_appears_is_told(machine: Machine) -> None:
    (machine.volume / KEYS.inputs / JOB).unlink()

    machine.boots()

    failure = machine.result().failure
    assert failure is not None
    assert failure.code == "job_unreadable"
    assert machine.starts == 0


@pytest.mark.parametrize(
    ("gpus", "code", "words"),
    [
        (["Tesla V100-SXM2-16GB, 7.0"], "gpu_too_old", "7.0, and training in bfloat16 needs 8.0"),
        ([], "no_gpu", "0 of the 1 GPUs"),
    ],
)
def test_a_machine_with_the_wrong_gpus_trains_nothing(machine: Machine, gpus: list[str], code: str, words: str) -> None:
    machine.program("nvidia-smi", "#!/bin/sh\n" + "".join(f'echo "{gpu}"\n' for gpu in gpus))

    machine.boots(TENSORANT_GPU_COUNT="1")

    failure = machine.result().failure
    assert failure is not None
    assert failure.code == code
    assert words in failure.message
    assert machine.starts == 0


def test_a_machine_with_the_right_gpus_trains(machine: Machine) -> None:
    machine.program("nvidia-smi", '#!/bin/sh\necho "NVIDIA L40S, 8.9"\necho "NVIDIA L40S, 8.9"\n')

    machine.boots(TENSORANT_GPU_COUNT="2")

    assert machine.result().outcome is Outcome.DONE


def test_a_trainer_that_hangs_past_its_deadline_is_ended(machine: Machine) -> None:
    machine.trains("import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)")
    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    (machine.volume / KEYS.inputs / CONSOLE).write_text(dump(Words(1, Ask.NONE, soon)))

    machine.boots(TENSORANT_PATIENCE="1")

    assert machine.result().outcome is Outcome.OVERRUN
    wait_for(lambda: "waits to be released" in machine.log)
    assert machine.starts == 1


def test_a_longer_deadline_is_heard(machine: Machine) -> None:
    machine.trains(f"import time; time.sleep(2.5)\n{textwrap.dedent(FINISH).replace('ADAPTER', 'None')}")
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    console = machine.volume / KEYS.inputs / CONSOLE
    console.write_text(dump(Words(1, Ask.NONE, soon)))

    machine.boots(TENSORANT_PATIENCE="0.5")
    wait_for(lambda: machine.starts == 1)
    console.write_text(dump(Words(2, Ask.NONE, (datetime.now(UTC) + timedelta(hours=1)).isoformat())))

    assert machine.result().outcome is Outcome.DONE


def test_the_signal_that_ends_the_container_reaches_the_trainer_first(machine: Machine) -> None:
    machine.trains(
        """
        import signal, sys, time
        def save(number, frame):
            open("saved", "w").write("yes")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        open("ready", "w").close()
        time.sleep(600)
        """
    )
    container = machine.boots()
    wait_for((machine.volume / "ready").exists)

    container.send_signal(signal.SIGTERM)

    assert container.wait(timeout=10) == 0
    assert (machine.volume / "saved").exists()
    assert machine.starts == 1


def test_the_machines_own_key_is_kept_from_the_trainer(machine: Machine) -> None:
    machine.trains('import os; open("seen", "w").write(str(sorted(os.environ)))')

    machine.boots(RUNPOD_API_KEY="rpa_pod", HF_TOKEN="hf_x")

    wait_for(lambda: (machine.volume / "seen").exists() and (machine.volume / "seen").read_text())
    seen = (machine.volume / "seen").read_text()
    assert "RUNPOD_API_KEY" not in seen
    assert "HF_TOKEN" in seen


def test_a_finished_machine_that_nobody_releases_deletes_itself(machine: Machine, tmp_path: Path) -> None:
    with Emulator(tmp_path / "runpod") as emulator:
        pod = emulator.account.create(pod_body())
        own = {"RUNPOD_POD_ID": pod.id, "RUNPOD_API_KEY": f"rpa_pod_{pod.id}", "RUNPOD_API_URL": emulator.api_url}

        machine.boots(**own, TENSORANT_RELEASE_AFTER="0.5")

        wait_for(lambda: pod.ended is not None)
        wait_for(lambda: "asked to be deleted itself (status 204)" in machine.log)


def test_a_machine_that_may_not_delete_itself_goes_on_waiting(machine: Machine, tmp_path: Path) -> None:
    with Emulator(tmp_path / "runpod") as emulator:
        own = {"RUNPOD_POD_ID": "another", "RUNPOD_API_KEY": "rpa_none", "RUNPOD_API_URL": emulator.api_url}

        container = machine.boots(**own, TENSORANT_RELEASE_AFTER="0.2")

        wait_for(lambda: "may not delete itself (status 401)" in machine.log)
        assert container.poll() is None


def test_with_a_disk_of_its_own_it_leaves_a_zip_and_never_deletes_itself(machine: Machine) -> None:
    adapter = machine.volume / KEYS.adapter
    adapter.mkdir(parents=True)
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    seal_folder(adapter)
    machine.trains(FINISH.replace("ADAPTER", repr(KEYS.adapter)))

    machine.boots(TENSORANT_STORAGE="pod", TENSORANT_RELEASE_AFTER="0.1", RUNPOD_POD_ID="p", RUNPOD_API_KEY="k")

    wait_for(lambda: "waits to be released" in machine.log)
    with zipfile.ZipFile(machine.volume / "data/adapter.zip") as archive:
        assert sorted(archive.namelist()) == ["adapter_model.safetensors", "manifest.json"]
    time.sleep(1)
    assert "Nobody released" not in machine.log


def test_when_the_time_is_over_the_newest_whole_checkpoint_is_left_as_an_adapter_that_says_so(machine: Machine) -> None:
    checkpoints = machine.volume / KEYS.outputs / CHECKPOINTS
    for step in (10, 20, 30):
        folder = checkpoints / f"step-{step:06d}"
        folder.mkdir(parents=True)
        for name in ("adapter_model.safetensors", "optimizer.safetensors"):
            (folder / name).write_text(f"{name} of {step}")
        seal_folder(folder)
    (checkpoints / "adapter_config.json").write_text("{}")
    (checkpoints / "step-000030/adapter_model.safetensors").write_text("cut")
    over = FINISH.replace("Outcome.DONE", "Outcome.OVERRUN").replace("adapter=ADAPTER", "step=31, total_steps=90")
    machine.trains(over)

    machine.boots(TENSORANT_STORAGE="pod")

    wait_for(lambda: "waits to be released" in machine.log)
    assert machine.result().unfinished == 20
    assert "step-000030 cannot be handed over" in machine.log
    with zipfile.ZipFile(machine.volume / "data/adapter.zip") as archive:
        assert set(archive.namelist()) == {"adapter_config.json", "adapter_model.safetensors", "README.md", MANIFEST}
        assert archive.read("adapter_model.safetensors") == b"adapter_model.safetensors of 20"
        assert load(Manifest, archive.read(MANIFEST).decode()).facts == {
            "unfinished": True,
            "step": 20,
            "total_steps": 90,
        }
        assert "step 20 of 90" in archive.read("README.md").decode()


def test_without_a_checkpoint_there_is_nothing_to_leave(machine: Machine) -> None:
    machine.trains(FINISH.replace("Outcome.DONE", "Outcome.OVERRUN").replace("adapter=ADAPTER", "step=0"))

    machine.boots(TENSORANT_STORAGE="pod")

    wait_for(lambda: "waits to be released" in machine.log)
    assert machine.result().unfinished == 0
    assert not (machine.volume / "data/adapter.zip").exists()


def test_a_container_without_a_job_says_so(machine: Machine) -> None:
    for command in (["train"], ["train", "--job", "../../etc/in/1/job.json"], ["train", "--job", "a/b"]):
        ended = subprocess.run(
            [sys.executable, "-m", "trainer.boot", *command],
            env=machine.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, "without a job" in ended.stderr) == (2, True)


class TestWithoutAVolume:
    """Its files came in the environment; what it writes is told through the container's log."""

    PACKED = pack_files({f"{KEYS.inputs}/{JOB}": b'{"from": "the environment"}', "versions/v/train.parquet": b"rows"})

    @pytest.fixture
    def pod(self, machine: Machine) -> Machine:
        shutil.rmtree(machine.volume)
        machine.volume.mkdir()
        machine.environment |= {"TENSORANT_STORAGE": "pod", FILES_VARIABLE: self.PACKED}
        return machine

    def told(self, container: subprocess.Popen[str], until: str) -> list[Told]:
        found = []
        assert container.stdout is not None
        for line in container.stdout:
            if told := read_told(line.rstrip("\n")):
                found.append(told)
                if told.name == until:
                    break
        return found

    def test_the_files_of_the_environment_lie_where_the_job_looks_for_them(self, pod: Machine) -> None:
        pod.trains(
            "import os; assert 'TENSORANT_FILES' not in os.environ\n"
            + textwrap.dedent(FINISH).replace("ADAPTER", "None")
        )

        self.told(pod.boots(), RESULT)

        assert (pod.volume / KEYS.inputs / JOB).read_text() == '{"from": "the environment"}'
        assert (pod.volume / "versions/v/train.parquet").read_bytes() == b"rows"
        assert not (pod.volume / "data/adapter.zip").exists()

    def test_a_base_model_of_the_image_lies_where_one_of_a_volume_would(self, pod: Machine, tmp_path: Path) -> None:
        (tmp_path / "baked/llama/abc").mkdir(parents=True)

        self.told(pod.boots(TENSORANT_BASES=str(tmp_path / "baked")), RESULT)

        assert (pod.volume / "bases/llama/abc").is_dir()

    def test_files_that_cannot_be_read_or_lead_out_are_a_failure_with_a_reason(self, pod: Machine) -> None:
        for packed in ("no files at all", pack_files({"../escaped": b"x"})):
            told = self.told(pod.boots(TENSORANT_FILES=packed), RESULT)[-1]
            failure = load(Result, told.text).failure
            assert failure is not None
            assert failure.code == "job_unreadable"
            pod.volume.joinpath(KEYS.outputs, RESULT).unlink()
        assert not pod.volume.parent.joinpath("escaped").exists()

    def test_what_grows_is_told_by_line_and_the_result_last_when_the_zip_is_there(self, pod: Machine) -> None:
        pod.trains(
            f"""
            from pathlib import Path
            from trainer.contract import Outcome, Result, dump, seal_folder
            out, adapter = Path({KEYS.outputs!r}), Path({KEYS.adapter!r})
            adapter.mkdir(parents=True)
            (adapter / "adapter_model.safetensors").write_bytes(b"weights")
            seal_folder(adapter)
            (out / "metrics.jsonl").write_text('{{"step": 1}}\\n{{"step": 2}}\\n{{"step": 3')
            (out / "status.json").write_text('{{"phase": "training"}}')
            (out / "result.json").write_text(
                dump(Result("tune-a", 1, 1, Outcome.DONE, "now", 1.0, 1, adapter={KEYS.adapter!r}))
            )
            """
        )

        told = self.told(pod.boots(), RESULT)

        assert (pod.volume / "data/adapter.zip").exists()
        assert [one.name for one in told][-1] == RESULT
        assert [one for one in told if one.name == METRICS] == [
            Told(METRICS, 0, '{"step": 1}'),
            Told(METRICS, 1, '{"step": 2}'),
        ]
        assert Told("status.json", None, '{"phase": "training"}') in told
        assert "@tnsr" not in pod.log

    def test_started_again_it_tells_the_end_and_trains_nothing(self, pod: Machine) -> None:
        first = pod.boots()
        self.told(first, RESULT)
        first.terminate()
        first.wait(timeout=20)

        assert self.told(pod.boots(), RESULT)[-1].name == RESULT
        assert (pod.volume / "starts").read_text() == "start\n"


def test_a_sentence_that_is_too_long_for_a_log_is_told_shorter(tmp_path: Path) -> None:
    failure = Failure("rows_unusable", "row 1 has no reply, " * 2_000, "Mend them.")
    (tmp_path / RESULT).write_text(dump(Result("tune-a", 1, 1, Outcome.FAILED, "now", 1.0, 1, failure=failure)))
    lines: list[bytes] = []
    teller = Teller(tmp_path, lines.append)
    teller.ends()

    teller.tell()

    told = read_told(lines[0].decode().rstrip("\n"))
    assert told is not None
    assert len(lines[0]) < LONGEST_TOLD
    assert load(Result, told.text).failure is not None
