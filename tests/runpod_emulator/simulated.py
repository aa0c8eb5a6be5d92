"""A trainer by the clock: it writes the files that the real one writes, when the real one would, and needs no torch."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.runpod_emulator.simulated_files import Folder, adapter_files, answers_of
from tests.runpod_emulator.workers import Container, Exit, gpu_trouble
from trainer.boot_guards import zip_adapter
from trainer.boot_teller import Teller
from trainer.contract import (
    FILES_VARIABLE,
    MANIFEST,
    RESULT,
    Ask,
    AttemptKeys,
    EvaluateJob,
    Failure,
    Outcome,
    Phase,
    Result,
    Status,
    TrainJob,
    unpack_files,
)

SLICE = 5.0
"""Seconds between two looks at the console's words."""
MOST_BOOTS = 2


@dataclass(frozen=True, slots=True)
class Trained:
    """Optimizer steps that one boot of one machine took: first (exclusive) and last."""

    subject_id: str
    attempt: int
    machine: str
    boot: int
    first: int
    last: int


@dataclass(slots=True)
class Script:
    """How the work goes. `World(…, start=Script(steps=40).start)`."""

    prepare: float = 60
    steps: int = 30
    step: float = 10
    """Seconds of one optimizer step."""
    checkpoint_every: int = 10
    package: float = 30
    answer: float = 60
    """Seconds of a whole evaluation."""
    exits: bool = False
    """The container ends with the work, as an image without a hold would; otherwise it waits to be deleted."""
    self_release: float | None = None
    """After so many seconds of waiting it deletes its own Pod."""
    is_deaf: bool = False
    """It hears neither the console's words nor its deadline."""
    failure: Failure | None = None
    """It fails with this in the middle of its steps."""
    trained: list[Trained] = field(default_factory=list)
    """The books: who trained what."""

    def start(self, container: Container, at: datetime) -> SimulatedTrainer:
        return SimulatedTrainer(self, container, at)


class _Halt(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class SimulatedTrainer:
    """One boot of one attempt. Its life is a generator that says how long it waits before it goes on."""

    def __init__(self, script: Script, container: Container, at: datetime) -> None:
        self._script, self._container = script, container
        self._at = self._began = self._next = at
        self._step, self._phase = 0, Phase.PREPARING
        self._folder: Folder | None = None
        self._job: TrainJob | EvaluateJob | None = None
        self._teller: Teller | None = None
        self._life = self._live()

    def advance(self, to: datetime) -> Exit | None:
        while self._next <= to:
            self._at = self._next
            try:
                self._next += timedelta(seconds=next(self._life))
            except StopIteration as end:
                return Exit(self._at, end.value or 0)
        if self._folder is not None and self._phase is not Phase.ENDED:
            self._beat(to)
        if self._teller is not None:
            self._at = max(self._at, to)
            self._teller.tell()
        return None

    def kill(self) -> None:
        self._life.close()

    def _live(self) -> Generator[float, None, int]:
        key = self._container.value_of("--job")
        volume = self._container.volume
        if volume is not None and (packed := self._container.env.get(FILES_VARIABLE)):
            unpack_files(packed, volume)
        if key is None or volume is None or not (volume / key).exists():
            self._container.say(self._at, f"The job {key} cannot be read.")
            return 2
        folder = self._folder = Folder.open(volume, key)
        self._job = folder.job
        if self._container.env.get("TENSORANT_STORAGE") == "pod":
            self._teller = Teller(folder.outputs, self._say, self._now)
        if not (folder.outputs / RESULT).exists():
            boot = folder.boot(self._at)
            self._container.say(self._at, f"{folder.job.machine}, attempt {folder.job.attempt}, boot {boot}")
            yield from self._work(folder, boot)
        if self._teller is not None:
            zip_adapter(volume, folder.outputs / RESULT, lambda text: self._container.say(self._at, text))
            self._teller.ends()
        if self._script.exits:
            return 0
        yield from self._hold()
        return 0

    def _work(self, folder: Folder, boot: int) -> Iterator[float]:
        outcome, failure = Outcome.DONE, None
        try:
            if (folder.adapter / MANIFEST).exists():
                self._step = self._script.steps
            elif boot > MOST_BOOTS:
                failure = Failure("restarted_too_often", f"The machine started {boot} times.", "Try another machine.")
            elif trouble := gpu_trouble(self._container):
                failure = trouble
            elif isinstance(folder.job, EvaluateJob):
                yield from self._answer(folder)
            else:
                yield from self._train(folder, folder.job, boot)
        except _Halt as halt:
            outcome = halt.outcome
        except _Failed as failed:
            failure = failed.failure
        self._finish(folder, boot, Outcome.FAILED if failure else outcome, failure)

    def _train(self, folder: Folder, job: TrainJob, boot: int) -> Iterator[float]:
        script = self._script
        yield from self._wait(script.prepare)
        self._step = first = folder.newest_step(job)
        if first:
            folder.event(self._at, boot, "resumed", step=first)
        self._enter(Phase.TRAINING)
        try:
            while self._step < script.steps:
                yield from self._wait(script.step)
                self._step += 1
                folder.metric(self._at, boot, self._step, script.steps)
                if self._step % script.checkpoint_every == 0 or self._step == script.steps:
                    folder.checkpoint(self._step)
                if script.failure and self._step * 2 >= script.steps:
                    raise _Failed(script.failure)
        except _Halt:
            folder.checkpoint(self._step)
            raise
        finally:
            if self._step > first:
                at = (job.subject_id, job.attempt, job.machine, boot)
                script.trained.append(Trained(*at, first, self._step))
        self._enter(Phase.PACKAGING)
        yield from self._wait(script.package)
        folder.publish(adapter_files(job, boot), self._step)

    def _answer(self, folder: Folder) -> Iterator[float]:
        assert isinstance(folder.job, EvaluateJob)
        yield from self._wait(self._script.prepare)
        self._enter(Phase.EVALUATING)
        yield from self._wait(self._script.answer)
        folder.answers = answers_of(folder.job, folder.volume)

    def _wait(self, seconds: float) -> Iterator[float]:
        """In slices, hearing the console after each."""
        while seconds > 0:
            piece = min(SLICE, seconds)
            seconds -= piece
            yield piece
            self._listen()

    def _listen(self) -> None:
        words = self._folder.words() if self._folder and not self._script.is_deaf else None
        if words is None:
            return
        if words.ask is Ask.STOP:
            raise _Halt(Outcome.STOPPED)
        if words.deadline is not None:
            deadline = datetime.fromisoformat(words.deadline)
            if self._at >= (deadline if deadline.tzinfo else deadline.replace(tzinfo=UTC)):
                raise _Halt(Outcome.OVERRUN)
        if words.ask is Ask.PAUSE:
            raise _Halt(Outcome.PAUSED)

    def _hold(self) -> Iterator[float]:
        """Until somebody deletes the Pod, or for as long as the script says."""
        waited = 0.0
        while True:
            yield SLICE
            waited += SLICE
            if self._script.self_release is not None and waited >= self._script.self_release:
                waited = 0.0
                self._container.release()

    def _say(self, line: bytes) -> None:
        self._container.say(self._at, line.decode())

    def _now(self) -> float:
        return self._at.timestamp()

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._beat(self._at)

    def _beat(self, at: datetime) -> None:
        folder, job = self._folder, self._job
        assert folder is not None
        assert job is not None
        folder.beat(
            Status(
                machine=job.machine,
                attempt=job.attempt,
                boot=folder.boots,
                phase=self._phase,
                at=at.isoformat(timespec="milliseconds"),
                step=self._step,
                total_steps=self._script.steps if isinstance(job, TrainJob) else 0,
                epoch=round(self._step / self._script.steps, 3),
                loss=round(2.0 / (1 + self._step), 4) if self._step else None,
                elapsed=(at - self._began).total_seconds(),
            )
        )

    def _finish(self, folder: Folder, boot: int, outcome: Outcome, failure: Failure | None) -> None:
        job, is_done = folder.job, outcome is Outcome.DONE
        keys = AttemptKeys.of("runs", job.subject_id, job.attempt)
        folder.finish(
            Result(
                machine=job.machine,
                attempt=job.attempt,
                boot=boot,
                outcome=outcome,
                at=self._at.isoformat(timespec="milliseconds"),
                seconds=(self._at - self._began).total_seconds(),
                peak_rss_mb=2048,
                failure=failure,
                step=self._step,
                total_steps=self._script.steps if isinstance(job, TrainJob) else 0,
                adapter=keys.adapter if is_done and isinstance(job, TrainJob) else None,
            )
        )
        self._container.say(self._at, f"ended: {outcome.value}")
        self._phase = Phase.ENDED
        self._beat(self._at)


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure
