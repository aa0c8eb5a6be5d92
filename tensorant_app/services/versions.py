"""Dataset versions: split, checked as the base model will read them, frozen under the hash of their content."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version as code_version
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db import clock
from tensorant_app.db.datasets import Dataset, DatasetVersion, Import, VersionEvent
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import begin, step
from tensorant_app.domain.division import Division
from tensorant_app.domain.errors import Conflict, Invalid, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.leakage import Keep, Repeats, read_repeats
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.splits import Shares
from tensorant_app.domain.steps import Cause
from tensorant_app.domain.versions import KEYS, LIFECYCLE, VersionState
from tensorant_app.services import safety
from tensorant_app.services.audit import write_audit
from tensorant_app.services.bases import find_base
from tensorant_app.services.connections import store
from tensorant_app.services.image_files import IMAGES
from tensorant_app.services.imports import rows_key
from tensorant_app.services.lookup import hold_row, own_row
from tensorant_app.services.overlays import counts_of, edited_source, newest_edit
from tensorant_app.services.safety import SafetyCheck, SafetyInput, SafetyLook, look_of, read_check
from tensorant_app.services.version_images import image_folders, link_file
from tensorant_app.services.work import percent_of, run_process, run_work, write_job
from tensorant_app.settings import get_settings
from trainer.contract import JOB, MASK, MASK_SUMMARY, MaskJob, MaskSummary, Split, load, seal_folder

REACT = "versions.react"
FILES = (*(f"{split.value}.parquet" for split in Split), KEYS, MASK, MASK_SUMMARY)
"""What a frozen version consists of, beside its manifest."""
_SHOWN_REASONS = 20


@dataclass(frozen=True, slots=True)
class Report:
    """What the check found; stored with the version and shown beside it."""

    rows: Mapping[str, int]
    """Split → rows."""
    labels: tuple[str, ...]
    safety: tuple[Mapping[str, Any], ...]
    """Places of refused rows, the first ones."""
    safety_check: SafetyCheck
    warnings: tuple[str, ...]
    repeats: tuple[Repeats, ...]
    """Which rows repeat others, leaks between splits first."""
    mask: MaskSummary
    content_sha256: str
    images: int = 0
    """Different ones that its rows name."""


@dataclass(frozen=True, slots=True)
class VersionView:
    id: UUID
    number: int
    state: VersionState
    problem: str | None
    report: Report | None
    content_sha256: str | None
    percent: int | None
    """Of the check, while its rows are read as the base model reads them."""
    merge_system: bool
    """The system text stands before the first question."""
    safety_look: SafetyLook


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What the check of a draft needs, read before it begins."""

    version_id: UUID
    state: VersionState
    sources: Mapping[str, str]
    """Split, empty for the rows that are divided → key of its rows in the store."""
    split: Mapping[str, Any]
    base_repo_id: str
    base_revision: str
    merge_system: bool
    edits: Mapping[str, Mapping[str, Any]]
    """By source: what people changed in its rows before the check began."""
    safety: SafetyInput


def draft_key(version_id: UUID) -> str:
    return f"versions/drafts/{version_id}"


def frozen_key(content_sha256: str) -> str:
    return f"versions/{content_sha256}"


def files_key(version: DatasetVersion) -> str:
    """Where the version's rows and their masks lie: those of its last whole check, until it is frozen."""
    if version.content_sha256 is not None:
        return frozen_key(version.content_sha256)
    if version.report is None:
        raise Conflict("This version has not been checked yet. Check it, then look at its rows.")
    return draft_key(version.id)


def create_version(
    session: Session,
    caller: Caller,
    import_id: UUID,
    *,
    shares: Shares,
    seed: int,
    keep: Keep = Keep.BEGINNINGS,
    group_by: str = "",
    stratify_by: str = "",
    files: Mapping[Split, UUID] | None = None,
    leave_out_rejected: bool = False,
) -> UUID:
    """A draft of an import's rows; rejected rows stay out only where the caller says so, knowing the number.

    `files` are splits that are an import of their own: no row of theirs goes elsewhere.
    """
    caller.require(Permission.PREPARE)
    files = files or {}
    source = hold_row(session, caller, Import, import_id, "import")
    sources = [source, *(_split_source(session, caller, source, split, one) for split, one in files.items())]
    left_out = _require_ready(session, sources, leave_out_rejected=leave_out_rejected)
    division = Division(
        shares, seed, keep, group_by.strip(), stratify_by.strip(), {split: str(one) for split, one in files.items()}
    )
    at = now_of(session)
    latest = session.exec(
        select(func.max(DatasetVersion.number)).where(col(DatasetVersion.dataset_id) == source.dataset_id)
    ).one()
    version = DatasetVersion(
        id=clock.new_id(at),
        created_at=at,
        organization_id=source.organization_id,
        dataset_id=source.dataset_id,
        import_id=source.id,
        number=(latest or 0) + 1,
        state=VersionState.DRAFT,
        split=division.stored(),
    )
    begin(session, version, VersionEvent, verb="create", cause=Cause.MEMBER)
    write_audit(session, caller, "versions.create", version.id, left_out=left_out)
    return version.id


def _split_source(session: Session, caller: Caller, main: Import, split: Split, import_id: UUID) -> Import:
    one = hold_row(session, caller, Import, import_id, "import")
    if split is Split.TRAIN or one.id == main.id or one.dataset_id != main.dataset_id:
        raise Invalid(
            {split.value: f"The {split.value} rows need another file of this dataset, or a share of this one."}
        )
    return one


def _require_ready(session: Session, sources: Sequence[Import], *, leave_out_rejected: bool) -> int:
    """How many rows with errors stay out because the caller says so."""
    for one in sources:
        if one.state is not ImportState.READY:
            raise Conflict(f"The file {one.file_name} is {one.state.value}; wait until it is ready.")
    rejected = sum(counts_of(session, one).with_errors for one in sources)
    rows = sum(one.rows for one in sources)
    if rejected and not leave_out_rejected:
        sentence = f"{rejected} of {rows} rows have errors. Mend them, or leave them out."
        raise Invalid({"leave_out_rejected": sentence})
    return rejected


def check_version(session: Session, caller: Caller, version_id: UUID, *, merge_system: bool | None = None) -> None:
    """Split, look for secrets, and read every row as the base model's template does: as a job.

    `merge_system` decides from now on whether the system text stands before the first question: in the version's
    masks, baselines, runs and evaluations alike.
    """
    _begin_work(session, caller, version_id, "check")
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    version.edit_id = newest_edit(session, _sources(version).values())
    if merge_system is not None and merge_system != version.merge_system:
        version.merge_system, version.report = merge_system, None


def cancel_check(session: Session, caller: Caller, version_id: UUID) -> None:
    """The process ends within seconds; what the check before it found stays."""
    caller.require(Permission.PREPARE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    step(session, version, LIFECYCLE, VersionEvent, verb="cancel", cause=Cause.MEMBER)
    write_audit(session, caller, "versions.cancel", version.id)
    promise(session, REACT, version.id)


def freeze_version(session: Session, caller: Caller, version_id: UUID) -> None:
    """Freeze a checked draft for good; refused with every row that cannot be trained."""
    caller.require(Permission.PREPARE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    report = _report(version)
    if report is None:
        raise Conflict("This version has not been checked yet. Check it, then freeze it.")
    if report.mask.errors:
        shown = report.mask.errors[:_SHOWN_REASONS]
        rest = report.mask.refused_rows - len(shown)
        reasons = [f"{error.split} row {error.row}: {error.message}" for error in shown]
        raise Refused("This version cannot be frozen:", [*reasons, *([f"… and {rest:,} more rows."] if rest else [])])
    if newest_edit(session, _sources(version).values()) != version.edit_id:
        raise Conflict("Rows were edited after this version was checked. Check it again, then freeze it.")
    _begin_work(session, caller, version_id, "freeze")


def _sources(version: DatasetVersion) -> dict[str, UUID]:
    """The imports whose rows it is made of, by the split that they are; the first one's is divided."""
    return {"": version.import_id} | {split: UUID(one) for split, one in version.split.get("files", {}).items()}


def _begin_work(session: Session, caller: Caller, version_id: UUID, verb: str) -> None:
    caller.require(Permission.PREPARE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    version.problem = None
    step(session, version, LIFECYCLE, VersionEvent, verb=verb, cause=Cause.MEMBER)
    write_audit(session, caller, f"versions.{verb}", version.id)
    promise(session, REACT, version.id)


def check_input(session: Session, version_id: UUID) -> CheckInput:
    version = session.get_one(DatasetVersion, version_id)
    dataset = session.get_one(Dataset, version.dataset_id)
    project = session.get_one(Project, dataset.project_id)
    return CheckInput(
        version.id,
        version.state,
        {split: rows_key(one) for split, one in _sources(version).items()},
        version.split,
        project.base_repo_id,
        project.base_revision,
        version.merge_system,
        {split: edited_source(session, one, version.edit_id) for split, one in _sources(version).items()},
        safety.read_input(session, version_id),
    )


def is_asked(session: Session, job: CheckInput) -> bool:
    """Whether the check is still wanted, and wanted like this: it may have been cancelled and begun otherwise."""
    return check_input(session, job.version_id) == job


def check_files(job: CheckInput, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Do the check in processes of its own, below `folder`; answers the report's stored form or `problem`."""
    base = find_base(job.base_repo_id, job.base_revision)
    sources = [
        {"split": split, "rows": str(store().fetch(key)), "edits": job.edits[split]}
        for split, key in job.sources.items()
    ]
    work = {"sources": sources, "split": dict(job.split), "images": image_folders(sources)}
    found = run_work("tensorant_app.services.version_work", work, folder, beat)
    if found["problem"]:
        return found
    files = {split.value: str(folder / f"{split.value}.parquet") for split in Split}
    shown = str(folder / IMAGES) if found.get("images") else None
    split_files = {split: Path(path) for split, path in files.items()}
    found |= safety.check_files(job.safety, split_files, folder, beat)
    mask_job = MaskJob(base=base, files=files, output=str(folder), merge_system=job.merge_system, images=shown)
    mask_folder = folder / "mask"
    write_job(mask_folder, asdict(mask_job))
    run_process([str(get_settings().trainer_python), "-m", "trainer", "mask", "--job", str(mask_folder / JOB)], beat)
    found["mask"] = json.loads((folder / MASK_SUMMARY).read_text())
    found["content_sha256"] = _hash_view(found["content_sha256"], found["mask"], merged=job.merge_system)
    return found


def finish_check(session: Session, version_id: UUID, found: dict[str, Any]) -> None:
    """Back to draft, with the report or the problem."""
    version = session.get_one(DatasetVersion, version_id)
    version.problem = found["problem"]
    version.report = None if found["problem"] else found
    step(session, version, LIFECYCLE, VersionEvent, verb="back", cause=Cause.WORKER, sentence=version.problem)


def freeze_files(version_id: UUID, content_sha256: str, facts: Mapping[str, str | int]) -> None:
    """Copy the checked files to the name of their content: whole or not at all, and harmless to repeat."""
    draft, frozen = store().fetch(draft_key(version_id)), store().fetch(frozen_key(content_sha256))
    if frozen.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=get_settings().store_dir, prefix=".work-") as name:
        aside = Path(name) / "files"
        aside.mkdir()
        for file_name in FILES:
            shutil.copyfile(draft / file_name, aside / file_name)
        if (draft / IMAGES).is_dir():
            shutil.copytree(draft / IMAGES, aside / IMAGES, copy_function=link_file)
        seal_folder(aside, dict(facts))
        try:
            aside.rename(frozen)
        except OSError:
            # Another version of the same content was frozen meanwhile.
            if not frozen.is_dir():
                raise


def manifest_facts(session: Session, version_id: UUID) -> tuple[str, dict[str, str | int]]:
    """The content's hash, and what the frozen manifest says beside its files."""
    version = session.get_one(DatasetVersion, version_id)
    report = _report(version)
    if report is None:
        raise Conflict("This version has not been checked.")
    facts: dict[str, str | int] = {
        "content_sha256": report.content_sha256,
        "tokenizer_sha256": report.mask.tokenizer_sha256,
        "template_sha256": report.mask.template_sha256,
        "tensorant": code_version("tensorant"),
        "seed": version.split["seed"],
        "merge_system": int(version.merge_system),
        "images": report.images,
        **{f"rows_{split}": count for split, count in report.rows.items()},
    }
    return report.content_sha256, facts


def note_problem(session: Session, version_id: UUID, sentence: str) -> None:
    """The freeze stopped half-way and is tried again."""
    session.get_one(DatasetVersion, version_id).problem = sentence


def finish_freeze(session: Session, version_id: UUID, content_sha256: str) -> None:
    version = session.get_one(DatasetVersion, version_id)
    version.content_sha256, version.problem = content_sha256, None
    step(session, version, LIFECYCLE, VersionEvent, verb="done", cause=Cause.WORKER)


def show_version(session: Session, caller: Caller, version_id: UUID) -> VersionView:
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    return VersionView(
        version.id,
        version.number,
        version.state,
        version.problem,
        _report(version),
        version.content_sha256,
        percent_of(version.id) if version.state is VersionState.CHECKING else None,
        version.merge_system,
        look_of(session, version),
    )


def report_of(session: Session, version_id: UUID) -> Report:
    """The report of a frozen version, for jobs."""
    version = session.get_one(DatasetVersion, version_id)
    report = _report(version)
    if report is None or version.content_sha256 is None:
        raise Conflict("The dataset version is not frozen. Freeze it first.")
    return report


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    at_work = col(DatasetVersion.state).in_([VersionState.CHECKING, VersionState.FREEZING])
    ensure(session, REACT, session.exec(select(DatasetVersion.id).where(at_work)))


def _hash_view(rows_sha256: str, mask: Mapping[str, Any], *, merged: bool) -> str:
    """Names the rows together with the template's view of them: another base model reads the same rows differently."""
    parts = (rows_sha256, mask["tokenizer_sha256"], mask["template_sha256"], *(["merged system"] if merged else []))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _report(version: DatasetVersion) -> Report | None:
    if version.report is None:
        return None
    stored = version.report
    return Report(
        rows=stored["rows"],
        labels=tuple(stored["labels"]),
        safety=tuple(stored["safety"]),
        safety_check=read_check(stored),
        warnings=tuple(stored["warnings"]),
        repeats=tuple(read_repeats(one) for one in stored.get("repeats", ())),
        mask=load(MaskSummary, json.dumps(stored["mask"])),
        content_sha256=stored["content_sha256"],
        images=stored.get("images", 0),
    )
