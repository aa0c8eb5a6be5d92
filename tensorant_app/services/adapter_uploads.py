"""An `adapter.zip` that a person carries over from a machine's own disk: received in pieces, checked in a process, taken."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.runs import AdapterUpload, Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Conflict, Invalid, Refused
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import AdapterUploadState, RunState
from tensorant_app.providers.base import FileStore
from tensorant_app.services import adapters, uploads
from tensorant_app.services.adapters import TakenAdapter
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.uploads import Upload, WrongOffset
from tensorant_app.settings import get_settings
from trainer.contract import MANIFEST, seal_folder

CHECK = "adapters.check"
_KEEP_FREE = 512 * 1024 * 1024
_LIVE = frozenset({AdapterUploadState.RECEIVING, AdapterUploadState.CHECKING})


@dataclass(frozen=True, slots=True)
class UploadedView:
    """The newest `adapter.zip` handed in for a run."""

    id: UUID
    state: AdapterUploadState
    reason: str | None


@dataclass(frozen=True, slots=True)
class UploadTask:
    """What its job needs."""

    id: UUID
    run_id: UUID
    organization_id: UUID
    state: AdapterUploadState
    base_repo_id: str
    base_revision: str


def start_adapter_upload(session: Session, caller: Caller, run_id: UUID, size: int) -> Upload:
    """Announce the file. Refused here, before a byte is sent, where the run has no use for it."""
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    if run.state is not RunState.NEEDS_RECOVERY:
        raise Conflict("An adapter can be handed in only for a run that needs recovery.")
    settings = get_settings()
    if not 0 < size <= settings.max_upload_bytes:
        raise Invalid({"file": f"An adapter.zip has between 1 byte and {settings.max_upload_bytes / 1024**3:.3g} GiB."})
    if shutil.disk_usage(settings.uploads_dir).free < 4 * size + _KEEP_FREE:
        raise Refused("There is no room for this file.", ["The console's disk is nearly full. Ask the operator."])
    for older in session.exec(select(AdapterUpload).where(AdapterUpload.run_id == run.id)):
        if older.state in _LIVE:
            _drop(older)
    row = AdapterUpload(
        id=clock.new_id(now_of(session)),
        created_at=now_of(session),
        organization_id=run.organization_id,
        run_id=run.id,
        created_by=caller.member_id,
        size=size,
        state=AdapterUploadState.RECEIVING,
    )
    session.add(row)
    write_audit(session, caller, "runs.upload_adapter", run.id, bytes=size)
    return Upload(row.id, 0, size, row.state)


def show_any(session: Session, caller: Caller, upload_id: UUID) -> Upload:
    """Where to go on, of an adapter's file or of a dataset's."""
    caller.require(Permission.PREPARE)
    if session.get(AdapterUpload, upload_id) is None:
        return uploads.show_upload(session, caller, upload_id)
    caller.require(Permission.SPEND)
    row = own_row(session, caller, AdapterUpload, upload_id, "upload")
    is_open = row.state is AdapterUploadState.RECEIVING
    return Upload(row.id, uploads.arrived(upload_id) if is_open else row.size, row.size, row.state)


def finish_any(session: Session, caller: Caller, upload_id: UUID) -> None:
    """Every byte is here: it is checked. Twice is once."""
    caller.require(Permission.PREPARE)
    if session.get(AdapterUpload, upload_id) is None:
        uploads.finish_upload(session, caller, upload_id)
        return
    caller.require(Permission.SPEND)
    row = own_row(session, caller, AdapterUpload, upload_id, "upload")
    if row.state is not AdapterUploadState.RECEIVING:
        return
    path = uploads.part_of(upload_id)
    if path.exists():
        if path.stat().st_size != row.size:
            raise WrongOffset(path.stat().st_size)
        store().take(_key(upload_id), path)
    row.state = AdapterUploadState.CHECKING
    promise(session, CHECK, row.id)


def cancel_any(session: Session, caller: Caller, upload_id: UUID) -> None:
    caller.require(Permission.PREPARE)
    if session.get(AdapterUpload, upload_id) is None:
        uploads.cancel_upload(session, caller, upload_id)
        return
    caller.require(Permission.SPEND)
    row = own_row(session, caller, AdapterUpload, upload_id, "upload")
    if row.state not in _LIVE:
        raise Conflict(f"This upload is {row.state.value} already.")
    _drop(row)


def show_uploaded(session: Session, caller: Caller, run_id: UUID) -> UploadedView | None:
    """How the file that was handed in is doing; None where there is none."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    newest = select(AdapterUpload).where(AdapterUpload.run_id == run.id).order_by(col(AdapterUpload.id).desc())
    row = session.exec(newest).first()
    return UploadedView(row.id, row.state, row.reason) if row else None


def read_task(session: Session, upload_id: UUID) -> UploadTask:
    row = session.get_one(AdapterUpload, upload_id)
    project = session.get_one(Project, session.get_one(Run, row.run_id).project_id)
    return UploadTask(row.id, row.run_id, row.organization_id, row.state, project.base_repo_id, project.base_revision)


def check_command(task: UploadTask, base: Path, unpack: Path) -> list[str]:
    """The trainer trusts nothing in the file until all has been checked: names, sizes, safetensors alone, keys, numbers."""
    python = str(get_settings().trainer_python)
    file = str(store().fetch(_key(task.id)))
    return [python, "-m", "trainer", "verify-zip", file, "--base", str(base), "--unpack", str(unpack)]


def take_unpacked(task: UploadTask, folder: Path, volume: FileStore) -> TakenAdapter:
    """Put the verified files beside the attempts' own, where an evaluation finds them; its manifest last."""
    if not (folder / MANIFEST).is_file():
        seal_folder(folder, {"uploaded": True})
    key = f"{Use.RUN.plural}/{task.run_id}/adapter/uploaded-{task.id}"
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    for name in [*names, MANIFEST]:
        volume.put(f"{key}/{name}", folder / name)
    taken = adapters.take_from(volume, task.run_id, 0, key)
    if taken is None:
        raise Refused("The adapter could not be kept.", ["Its files differ from what was checked. Hand it in again."])
    return taken


def note_accepted(session: Session, upload_id: UUID, adapter: TakenAdapter) -> None:
    row = session.get_one(AdapterUpload, upload_id)
    run = session.get_one(Run, row.run_id)
    if row.state is not AdapterUploadState.CHECKING:
        return
    if run.state is not RunState.NEEDS_RECOVERY:
        row.state, row.reason = AdapterUploadState.REFUSED, "The run no longer needs recovery."
        return
    row.state = AdapterUploadState.ACCEPTED
    adapters.recover(session, run, adapter, f"The uploaded adapter.zip was checked and taken.{_unfinished(adapter)}")


def _unfinished(adapter: TakenAdapter) -> str:
    """A warning where it says of itself that the run's time was over before it was finished."""
    facts = adapter.manifest.facts
    if not facts.get("unfinished"):
        return ""
    step, total = facts.get("step"), facts.get("total_steps")
    of = f" of step {step} of {total}" if total else f" of step {step}"
    return f" It is not finished: it is the checkpoint{of}. Score it before you use it."


def note_refused(session: Session, upload_id: UUID, reason: str) -> None:
    row = session.get_one(AdapterUpload, upload_id)
    if row.state is AdapterUploadState.CHECKING:
        row.state, row.reason = AdapterUploadState.REFUSED, reason


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    checking = select(AdapterUpload.id).where(AdapterUpload.state == AdapterUploadState.CHECKING)
    ensure(session, CHECK, session.exec(checking))


def forget_file(upload_id: UUID) -> None:
    """Checked, whatever came of it: the zip itself is of no more use."""
    store().delete(_key(upload_id))


def give_up(row: AdapterUpload) -> None:
    """Nobody has sent a byte of it for long; its file is swept away."""
    row.state, row.reason = AdapterUploadState.CANCELLED, "No byte of it came for a week."


def _drop(row: AdapterUpload) -> None:
    row.state = AdapterUploadState.CANCELLED
    uploads.part_of(row.id).unlink(missing_ok=True)


def _key(upload_id: UUID) -> str:
    return f"adapter_uploads/{upload_id}.zip"
