"""The process on a tape's machine: its messages become the files that the real trainer leaves on the volume."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from tensorant_app.domain.machines import Use
from tensorant_app.providers.base import FileStore
from tensorant_app.services.machines import MachineView
from trainer.boot_guards import OLDEST
from trainer.contract import (
    MANIFEST,
    RESULT,
    STATUS,
    Ask,
    AttemptKeys,
    Failure,
    FileEntry,
    Manifest,
    Outcome,
    Phase,
    Result,
    Status,
    dump,
)
from trainer.errors import TrainerError


class Trainer:
    """Speaks for one run's machine, whichever attempt that is."""

    def __init__(self, volume: FileStore, total_steps: int) -> None:
        self._volume = volume
        self.total_steps = total_steps
        self.starts: list[tuple[int, int]] = []
        """Attempt and boot of every start that trained."""
        self.steps: list[tuple[int, int]] = []
        """Boot and step of every optimizer step."""
        self._saved = 0
        self._boot = 1
        self._attempt = 1

    def hear(self, machine: MachineView, message: Mapping[str, Any], at: str) -> None:
        """Do on the volume what the process would have done before it said so."""
        self._be(machine)
        event = str(message.get("event") or message.get("phase") or message.get("status") or "").lower()
        boot = _whole(message.get("boot")) or self._boot
        if _tells_gpus(message):
            self._look_at_gpus(machine, message, at)
        elif event in {"start", "started", "trainer starts", "boot"}:
            self._start(machine, self._boot + 1 if event == "trainer starts" and self.steps else boot, at)
        elif re.search(r"finish|^done|^completed?$|result ok", event) or message.get("manifest") == "ok":
            self.finish(machine, boot, at, is_whole=message.get("manifest", "ok") == "ok")
        elif event == "checkpoint":
            self._saved = _whole(message.get("step")) or _whole(message.get("n")) or self._saved
        elif re.search(r"fail|error|crash|memory|oom|nan|diverged|exception", event):
            told = message.get("message") or message.get("reason") or message.get("detail") or event
            self._end(machine, boot, Outcome.FAILED, at, Failure(str(message.get("code", "crashed")), str(told), ""))
        elif re.search(r"overrun|deadline|runtime limit|maximum runtime|time is over", event):
            self._end(machine, boot, Outcome.OVERRUN, at)
        elif event == "paused":
            self._end(machine, boot, Outcome.PAUSED, at)
        elif re.search(r"packag|saving|export", event):
            self._say(machine, boot, Phase.PACKAGING, at, self.total_steps)
        elif (step := _step_of(message)) is not None:
            self._step(machine, step, at, boot)
        elif re.search(r"prepar|download|token", event):
            self._say(machine, boot, Phase.PREPARING, at)
        elif event in {"training", "heartbeat", "alive", "train"}:
            self.train(machine, self.steps[-1][1] if self.steps else 1, at, boot)

    def train(self, machine: MachineView, step: int, at: str, boot: int | None = None) -> None:
        """It is at this step, and has been for a while."""
        self._be(machine)
        boot = boot or self._boot
        if (machine.attempt, boot) not in self.starts:
            self.starts.append((machine.attempt, boot))
        self._say(machine, boot, Phase.TRAINING, at, step)

    def prepare(self, machine: MachineView, at: str) -> None:
        self._say(machine, self._boot, Phase.PREPARING, at)

    def pack(self, machine: MachineView, at: str) -> None:
        self._say(machine, self._boot, Phase.PACKAGING, at, self.total_steps)

    def obey(self, machine: MachineView, at: str) -> None:
        """As a trainer that works: it saves and ends when it is told to, or when its time is over."""
        if machine.words_ask == Ask.PAUSE.value:
            self._end(machine, self._boot, Outcome.PAUSED, at)
        elif machine.deadline.isoformat() <= at:
            self._end(machine, self._boot, Outcome.OVERRUN, at)

    def finish(self, machine: MachineView, boot: int | None, at: str, *, is_whole: bool = True) -> None:
        """The adapter, its manifest, then the result; never a second time. One that is not whole does not match its manifest."""
        self._be(machine)
        key = AttemptKeys.of(Use.RUN.plural, str(machine.subject_id), machine.attempt).adapter
        boot = boot or self._boot
        if self._volume.size(f"{key}/{MANIFEST}") is None:
            files = {"adapter_config.json": b"{}", "adapter_model.safetensors": f"boot {boot}".encode()}
            entries = {n: FileEntry(hashlib.sha256(c).hexdigest(), len(c)) for n, c in files.items()}
            for name, content in files.items():
                self._volume.put(f"{key}/{name}", content if is_whole else content[:-1])
            self._volume.put(f"{key}/{MANIFEST}", dump(Manifest(entries, {"step": self.total_steps})).encode())
        self._end(machine, boot, Outcome.DONE, at, adapter=key)

    def _be(self, machine: MachineView) -> None:
        """Another attempt's trainer begins anew."""
        if machine.attempt != self._attempt:
            self._attempt, self._boot = machine.attempt, 1

    def _start(self, machine: MachineView, boot: int, at: str) -> None:
        """A start that finds a result has nothing to train."""
        self._boot = boot
        if self._volume.size(f"{machine.outputs_key}/{RESULT}") is not None:
            return
        self.starts.append((machine.attempt, boot))
        self._say(machine, boot, Phase.TRAINING, at, self._saved)

    def _step(self, machine: MachineView, step: int, at: str, boot: int) -> None:
        if (machine.attempt, boot) not in self.starts:
            self.starts.append((machine.attempt, boot))
        self.steps.append((boot, step))
        self._say(machine, boot, Phase.TRAINING, at, step)

    def _look_at_gpus(self, machine: MachineView, message: Mapping[str, Any], at: str) -> None:
        """As the image's boot does, before anything is downloaded."""
        have = str(message.get("compute_capability", ""))
        count = _whole(message.get("gpu_count"))
        name, count = str(message.get("gpu_name", "GPU")), machine.gpu_count if count is None else count
        capability = tuple(int(part) for part in re.findall(r"\d+", have))
        if message.get("cuda_available") is False or count == 0:
            failure = TrainerError("no_gpu", have=0, wanted=machine.gpu_count).failure
        elif count < machine.gpu_count:
            failure = TrainerError("no_gpu", have=count, wanted=machine.gpu_count).failure
        elif capability and capability < OLDEST:
            failure = TrainerError("gpu_too_old", name=name, have=have).failure
        else:
            self._say(machine, self._boot, Phase.PREPARING, at)
            return
        self._end(machine, self._boot, Outcome.FAILED, at, failure)

    def _say(self, machine: MachineView, boot: int, phase: Phase, at: str, step: int = 0) -> None:
        status = Status(machine.name, machine.attempt, boot, phase, at, step=step, total_steps=self.total_steps)
        self._volume.put(f"{machine.outputs_key}/{STATUS}", dump(status).encode())

    def _end(
        self,
        machine: MachineView,
        boot: int,
        outcome: Outcome,
        at: str,
        failure: Failure | None = None,
        adapter: str | None = None,
    ) -> None:
        if self._volume.size(f"{machine.outputs_key}/{RESULT}") is not None:
            return
        who = (machine.name, machine.attempt, boot, outcome, at, 60.0, 2048)
        result = Result(*who, failure=failure, total_steps=self.total_steps, adapter=adapter)
        self._volume.put(f"{machine.outputs_key}/{RESULT}", json.dumps(json.loads(dump(result))).encode())


def _tells_gpus(message: Mapping[str, Any]) -> bool:
    return any(word in message for word in ("compute_capability", "cuda_available", "gpu_count"))


def _step_of(message: Mapping[str, Any]) -> int | None:
    return next((found for word in ("n", "step") if (found := _whole(message.get(word))) is not None), None)


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
