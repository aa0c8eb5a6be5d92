"""The entry point of the trainer's image: runs one job, keeps its container up afterwards, and never trains anything twice.

A container whose program ends is started again, and billed, for ever; so this one ends only when it is told to. What it
writes lies on the volume: the log, and a result where the trainer left none. Standard library and `trainer` only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import BinaryIO

from trainer.boot_guards import GpuTrouble, find_gpu_trouble, link_bases, release_own_pod, zip_adapter
from trainer.boot_teller import telling
from trainer.contract import (
    BOOT,
    CONSOLE,
    FILES_VARIABLE,
    LOG,
    RESULT,
    Boot,
    Failure,
    Outcome,
    Result,
    Words,
    dump,
    load,
    unpack_files,
    write_file,
)
from trainer.errors import TrainerError
from trainer.events import now
from trainer.watchdog import on_monotonic_clock

MOUNT = "/workspace"
STARTS = 3
"""The trainer itself gives up at its third start; a process that cannot even start is not tried more often."""
PATIENCE = 600.0
"""Seconds after the deadline after which even the trainer's own watchdog is taken to be dead."""
JOB_APPEARS = 120.0
"""Seconds until a file written over S3 must be seen on the mount."""
RELEASE_AFTER = 1800.0
"""Seconds that a finished machine waits for the console, before it asks to be deleted itself."""
RELEASE_AGAIN = 600.0


@dataclass(frozen=True, slots=True)
class Place:
    """What this container is for, by its command and its environment."""

    volume: Path
    job: str
    """Key: `<use>/<subject>/in/<attempt>/job.json`."""
    machine: str
    is_on_volume: bool
    """Its files outlive the machine."""

    @property
    def inputs(self) -> Path:
        return self.volume / PurePosixPath(self.job).parent

    @property
    def attempt(self) -> int:
        return int(PurePosixPath(self.job).parts[3])

    @property
    def outputs(self) -> Path:
        use, subject, _, attempt, _ = PurePosixPath(self.job).parts
        return self.volume / use / subject / "out" / attempt

    @property
    def result(self) -> Path:
        return self.outputs / RESULT

    @classmethod
    def of(cls, command: Sequence[str], environment: Mapping[str, str]) -> Place:
        """`ValueError` where the command names no job."""
        words = list(command)
        key = words[words.index("--job") + 1]
        parts = PurePosixPath(key).parts
        if len(parts) != 5 or parts[2] != "in" or not parts[3].isdigit() or ".." in parts:
            raise ValueError(f"{key} is no job of an attempt")
        volume = Path(environment.get("TENSORANT_MOUNT", MOUNT))
        is_on_volume = environment.get("TENSORANT_STORAGE", "volume") == "volume"
        return cls(volume, key, environment.get("TENSORANT_MACHINE", ""), is_on_volume)


class Container:
    """One start of the container, from its first line to the signal that ends it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._environment = dict(environment)
        self._place = Place.of(command, environment)
        self._told_to_end = threading.Event()
        self._trainer: subprocess.Popen[bytes] | None = None
        self._log: BinaryIO | None = None

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            self._place.outputs.mkdir(parents=True, exist_ok=True)
            self._log = (self._place.outputs / LOG).open("ab", buffering=0)
        except OSError as error:
            self._say(f"The volume cannot be written: {error}.")
        if self._place.is_on_volume:
            self._work()
            self._hold()
            return 0
        with telling(self._place.outputs, self._print) as teller:
            self._work()
            # The console stops this machine once it hears of the end: whatever a person fetches is there before.
            zip_adapter(self._place.volume, self._place.result, self._say)
            teller.ends()
            self._hold()
        return 0

    def _work(self) -> None:
        if self._place.result.exists():
            self._say("This attempt has ended before; nothing is trained again.")
            return
        if not self._place.is_on_volume and not self._unpacks():
            return
        if not self._job_appears():
            self._fail("job_unreadable", what=f"{self._place.job} is not on the volume")
        elif (trouble := find_gpu_trouble(self._environment)) is not None:
            self._fail_for(trouble)
        else:
            self._train()

    def _unpacks(self) -> bool:
        """No volume brings its files: they came with the create call, and the base model with the image."""
        try:
            link_bases(self._place.volume, self._environment)
            if packed := self._environment.get(FILES_VARIABLE):
                unpack_files(packed, self._place.volume)
        except (OSError, ValueError) as error:
            self._fail("job_unreadable", what=str(error))
            return False
        return True

    def _job_appears(self) -> bool:
        give_up_at = time.monotonic() + self._seconds("TENSORANT_JOB_APPEARS", JOB_APPEARS)
        while not (self._place.volume / self._place.job).exists():
            if time.monotonic() >= give_up_at or self._told_to_end.wait(0.5):
                return False
        return True

    def _train(self) -> None:
        code = None
        for start in range(STARTS):
            if start:
                self._say(f"The trainer ended with code {code} and left no result; it is started again.")
            code = self._run_trainer()
            if self._place.result.exists() or self._told_to_end.is_set():
                return
        self._fail(
            "crashed", text=f"The trainer ended {STARTS} times without a result, the last time with code {code}."
        )

    def _run_trainer(self) -> int:
        """Its exit code. Every line that it says goes to the provider's log and to the volume."""
        python = self._environment.get("TENSORANT_TRAINER_PYTHON", sys.executable)
        withheld = {"RUNPOD_API_KEY", FILES_VARIABLE}
        kept = {name: value for name, value in self._environment.items() if name not in withheld}
        process = subprocess.Popen(
            [python, "-m", "trainer", *self._command],
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._place.volume,
            start_new_session=True,
        )
        self._trainer = process
        reader = threading.Thread(target=self._pass_on, args=(process,), daemon=True)
        reader.start()
        self._watch(process)
        reader.join(timeout=5)
        return process.returncode

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Until it ends, or is long past its deadline: the last of the machine's own stops."""
        seq, deadline = -1, None
        while process.poll() is None:
            if (words := self._words()) is not None and words.seq > seq:
                seq, deadline = words.seq, on_monotonic_clock(words.deadline)
            patience = self._seconds("TENSORANT_PATIENCE", PATIENCE)
            if deadline is not None and time.monotonic() >= deadline + patience:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self._say("The trainer hung long past its deadline and was killed.")
                self._finish(Outcome.OVERRUN, None)
                return
            time.sleep(0.2)

    def _words(self) -> Words | None:
        try:
            return load(Words, (self._place.inputs / CONSOLE).read_text())
        except (OSError, ValueError, TypeError):
            return None

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._write(line)

    def _hold(self) -> None:
        """Until it is told to end. On a volume nothing is lost with the machine: after a while it asks to go."""
        self._say("Nothing is left to do; the machine waits to be released.")
        release_at = time.monotonic() + self._seconds("TENSORANT_RELEASE_AFTER", RELEASE_AFTER)
        while not self._told_to_end.wait(0.5):
            _reap()
            if self._place.is_on_volume and time.monotonic() >= release_at:
                self._say(release_own_pod(self._environment))
                release_at = time.monotonic() + RELEASE_AGAIN

    def _fail_for(self, trouble: GpuTrouble) -> None:
        self._fail(trouble.code, **trouble.facts)

    def _fail(self, code: str, **facts: object) -> None:
        failure = TrainerError(code, **facts).failure
        self._say(failure.message)
        self._finish(Outcome.FAILED, failure)

    def _finish(self, outcome: Outcome, failure: Failure | None) -> None:
        """A result in the trainer's place; one that is there already stands."""
        if self._place.result.exists():
            return
        result = Result(
            machine=self._place.machine,
            attempt=self._place.attempt,
            boot=self._boots(),
            outcome=outcome,
            at=now(),
            seconds=0.0,
            peak_rss_mb=0,
            failure=failure,
        )
        try:
            write_file(self._place.result, dump(result))
        except OSError as error:
            self._say(f"The result cannot be written: {error}.")

    def _boots(self) -> int:
        try:
            return load(Boot, (self._place.outputs / BOOT).read_text()).boot
        except (OSError, ValueError, TypeError):
            return 1

    def _say(self, text: str) -> None:
        self._write(f"boot: {text}\n".encode())

    def _print(self, line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    def _write(self, line: bytes) -> None:
        self._print(line)
        if self._log is not None:
            try:
                self._log.write(line)
            except OSError:  # a full volume must not end the work
                self._log = None

    def _seconds(self, variable: str, default: float) -> float:
        return float(self._environment.get(variable, default))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._told_to_end.set()
        if self._trainer is not None and self._trainer.poll() is None:
            self._trainer.terminate()  # it writes a checkpoint first


def _reap() -> None:
    """The first process of a container inherits every orphan in it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def main(command: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if command is None else command)
    try:
        container = Container(words, os.environ)
    except (ValueError, IndexError) as error:
        print(f"boot: this container was started without a job: {error}", file=sys.stderr, flush=True)
        return 2
    return container.run()


if __name__ == "__main__":
    sys.exit(main())
