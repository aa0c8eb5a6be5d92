"""The process on a tape's machine: its messages become the files that the real trainer leaves on the volume."""

from __future__ import annotations

import hashlib
import json
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

    def hear(self, machine: MachineView, message: Mapping[str, Any], at: str) -> None:
        """Do on the volume what the process would have done before it said so."""
        event = str(message.get("event", ""))
        boot = int(message.get("boot", self._boot))
        if "compute_capability" in message or message.get("cuda_available") is False:
            self._look_at_gpus(machine, message, at)
        elif event in {"start", "trainer starts"}:
            self._start(machine, self._boot + 1 if event == "trainer starts" and self.steps else boot, at)
        elif event == "step":
            self._step(machine, int(message["n"]), at)
        elif event == "checkpoint":
            self._saved = int(message["step"])
        elif event == "finished" or message.get("manifest") == "ok":
            self.finish(machine, boot, at)
        elif event in {"failed", "error"}:
            failure = Failure(str(message.get("code", "crashed")), str(message.get("message", event)), "")
            self._end(machine, boot, Outcome.FAILED, at, failure)

    def train(self, machine: MachineView, step: int, at: str, boot: int = 1) -> None:
        """It is at this step, and has been for a while."""
        self.starts = self.starts or [(machine.attempt, boot)]
        self._say(machine, boot, Phase.TRAINING, at, step)

    def finish(self, machine: MachineView, boot: int, at: str) -> None:
        """The adapter, its manifest, then the result; never a second time."""
        key = AttemptKeys.of(Use.RUN.plural, str(machine.subject_id), machine.attempt).adapter
        if self._volume.size(f"{key}/{MANIFEST}") is None:
            files = {"adapter_config.json": b"{}", "adapter_model.safetensors": f"boot {boot}".encode()}
            for name, content in files.items():
                self._volume.put(f"{key}/{name}", content)
            entries = {n: FileEntry(hashlib.sha256(c).hexdigest(), len(c)) for n, c in files.items()}
            self._volume.put(f"{key}/{MANIFEST}", dump(Manifest(entries, {"step": self.total_steps})).encode())
        self._end(machine, boot, Outcome.DONE, at, adapter=key)

    def _start(self, machine: MachineView, boot: int, at: str) -> None:
        """A start that finds a result has nothing to train."""
        self._boot = boot
        if self._volume.size(f"{machine.outputs_key}/{RESULT}") is not None:
            return
        self.starts.append((machine.attempt, boot))
        self._say(machine, boot, Phase.TRAINING, at, self._saved)

    def _step(self, machine: MachineView, step: int, at: str) -> None:
        self.starts = self.starts or [(machine.attempt, self._boot)]
        self.steps.append((self._boot, step))
        self._say(machine, self._boot, Phase.TRAINING, at, step)

    def _look_at_gpus(self, machine: MachineView, message: Mapping[str, Any], at: str) -> None:
        """As the image's boot does, before anything is downloaded."""
        have = str(message.get("compute_capability", ""))
        name, count = str(message.get("gpu_name", "GPU")), int(message.get("gpu_count", 1))
        if count == 0 or message.get("cuda_available") is False:
            failure = TrainerError("no_gpu", have=0, wanted=machine.gpu_count).failure
        elif have and tuple(int(part) for part in have.split(".")) < OLDEST:
            failure = TrainerError("gpu_too_old", name=name, have=have).failure
        else:
            self._say(machine, 1, Phase.PREPARING, at)
            return
        self._end(machine, 1, Outcome.FAILED, at, failure)

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
