"""A machine's row as jobs and users of the machine see it, and what its trainer wrote about itself."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlmodel import Session, col, or_, select
from sqlmodel.sql.expression import SelectOfScalar

from tensorant_app.db.machines import Machine
from tensorant_app.domain.machines import OVERDUE, MachineReason, MachineState, Presence, Sighting, Use, is_checking
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import Work
from tensorant_app.providers.base import FileStore, MachineRequest, Storage
from trainer.contract import RESULT, STATUS, Outcome, Phase, Result, Status, dump, load

R = TypeVar("R")
W = TypeVar("W", Status, Result)

_LARGEST = 1 << 20
"""Bytes. What a machine says of itself is far shorter."""
_NO_TEXT = re.compile(r"\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})")
"""Escapes that databases refuse as text; the trainer escapes no other sign in this way."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MachineView:
    """A machine's row, frozen."""

    id: UUID
    organization_id: UUID
    use: Use
    subject_id: UUID
    attempt: int
    name: str
    provider: str
    connection_id: UUID | None
    gpu_type: str
    gpu_count: int
    data_center: str | None
    options: Mapping[str, Any]
    rate: HourlyRate | None
    rate_limit: HourlyRate | None
    state: MachineState
    reason: MachineReason | None
    sentence: str | None
    command: Sequence[str]
    inputs_key: str
    outputs_key: str
    ask_sent_at: datetime | None
    answer_lost_at: datetime | None
    held_at: datetime | None
    started_at: datetime | None
    known_at: datetime | None
    container_began_at: datetime | None
    provider_id: str | None
    provider_ids: Sequence[str]
    provider_status: str
    presence: Presence | None
    seen_at: datetime | None
    boots: int
    read_at: datetime | None
    watched_until: datetime | None
    stop_wanted_at: datetime | None
    release_wanted_at: datetime | None
    release_sent_at: datetime | None
    release_tries: int
    release_problem: str | None
    retry_at: datetime | None
    released_at: datetime | None
    absent_since: datetime | None
    absent_looks: int
    deadline: datetime
    words_seq: int
    words_sent: int
    words_ask: str
    status: Status | None
    result: Result | None

    @property
    def work(self) -> Work:
        """How far its work is, by its own words."""
        if self.result is not None:
            return _OUTCOMES[self.result.outcome]
        return _PHASES[self.status.phase] if self.status is not None else Work.NONE

    @property
    def storage(self) -> Storage:
        """Where it keeps its files; this computer's machines share the console's disk."""
        return Storage(self.options.get("storage", Storage.VOLUME))

    @property
    def keeps_files_to_itself(self) -> bool:
        """There is a disk that ends with it, and what it made lies there alone."""
        return self.storage is Storage.POD and self.state in {MachineState.HELD, MachineState.STOPPED}

    @property
    def request(self) -> MachineRequest:
        options = {**self.options, "storage": self.storage}
        return MachineRequest(
            self.name,
            self.gpu_type,
            self.command,
            self.outputs_key,
            {},
            gpu_count=self.gpu_count,
            data_center=self.data_center,
            **options,
        )

    @property
    def sighting(self) -> Sighting | None:
        """The last look at its account that told something new."""
        if self.presence is None or self.seen_at is None:
            return None
        ids = tuple(self.provider_ids)
        return Sighting(self.seen_at, self.presence, ids, self.provider_status, self.rate)

    @property
    def trouble(self) -> str | None:
        """Why it is not given back yet, where that is not a matter of moments."""
        if self.state is not MachineState.RELEASE_FAILED:
            return None
        if self.presence is Presence.ABSENT:
            return self.release_problem or "The provider took the delete calls; nothing proves yet that it is gone."
        return self.release_problem or "The provider took the delete calls and lists the machine all the same."

    def is_checking(self, now: datetime) -> bool:
        """Nobody knows whether it exists: **Checking launch**."""
        return is_checking(self.state, self.ask_sent_at, self.answer_lost_at is not None, now)


def in_doubt(use: Use, now: datetime) -> SelectOfScalar[UUID]:
    """Subjects whose machine nobody knows to exist: `domain.machines.is_checking` for a database."""
    asked_at = col(Machine.ask_sent_at)
    return select(Machine.subject_id).where(
        Machine.use == use,
        Machine.state == MachineState.ASKED,
        asked_at.is_not(None),
        or_(col(Machine.answer_lost_at).is_not(None), asked_at < now - OVERDUE),
    )


_OUTCOMES = {
    Outcome.DONE: Work.DONE,
    Outcome.FAILED: Work.FAILED,
    Outcome.PAUSED: Work.PAUSED,
    Outcome.STOPPED: Work.STOPPED,
    Outcome.OVERRUN: Work.OVERRUN,
}
_PHASES = {
    Phase.PREPARING: Work.PREPARING,
    Phase.TRAINING: Work.TRAINING,
    Phase.PACKAGING: Work.PACKAGING,
    Phase.EVALUATING: Work.TRAINING,
    Phase.ENDED: Work.PACKAGING,
}


def machine_of(session: Session, use: Use, subject_id: UUID, attempt: int) -> MachineView | None:
    found = select(Machine).where(Machine.use == use, Machine.subject_id == subject_id, Machine.attempt == attempt)
    row = session.exec(found).one_or_none()
    return None if row is None else view(row)


def see_machine(session: Session, machine_id: UUID) -> MachineView | None:
    row = session.get(Machine, machine_id)
    return None if row is None else view(row)


def read_report(volume: FileStore, machine: MachineView) -> tuple[Status | None, Result | None]:
    """Heartbeat and result, if they are this very machine's: an earlier attempt's files are not its word.

    A file that cannot be understood was not heard. Raises what the volume raises.
    """
    status = _read(volume, f"{machine.outputs_key}/{STATUS}", Status, machine)
    result = _read(volume, f"{machine.outputs_key}/{RESULT}", Result, machine)
    return status, result


def _read(volume: FileStore, key: str, cls: type[W], machine: MachineView) -> W | None:
    found = read_file(volume, key, cls)
    return found if found is not None and (found.machine, found.attempt) == (machine.name, machine.attempt) else None


def read_file(volume: FileStore, key: str, cls: type[R]) -> R | None:
    """A small file that a machine wrote; None where there is none, or where it is torn or holds what nobody knows."""
    size = volume.size(key)
    if size is None:
        return None
    try:
        if size > _LARGEST:
            raise ValueError(f"it has {size} bytes")
        with volume.open(key) as file:
            return load(cls, _NO_TEXT.sub("\ufffd", file.read().decode()))
    except ValueError as error:
        _log.warning("%s cannot be read, so it counts as not written: %s", key, error)
        return None


def view(row: Machine) -> MachineView:
    values = {name: getattr(row, name) for name in _PLAIN}
    return MachineView(
        **values,
        reason=MachineReason(row.reason) if row.reason else None,
        status=load(Status, json.dumps(row.status)) if row.status else None,
        result=load(Result, json.dumps(row.result)) if row.result else None,
    )


_PLAIN = tuple(name for name in MachineView.__dataclass_fields__ if name not in {"reason", "status", "result"})


def as_text(value: Any) -> bytes:
    """A file of the contract, as it lies on the volume."""
    return dump(value).encode()
