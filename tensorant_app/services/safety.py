"""The safety check of an organization: what it adds to the built-in one, and looking through a version's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.organizations import Organization
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.safety import SafetyChoice
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import AuthFailed, Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.safety import SafetyCode
from tensorant_app.domain.safety_settings import (
    ClassifierKind,
    SafetySettings,
    read_command,
    read_header,
    read_seconds,
    read_token,
    read_url,
    read_words,
)
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import sealing
from tensorant_app.services.audit import write_audit
from tensorant_app.services.classifiers import NotChecked, classify
from tensorant_app.services.lookup import own_row
from tensorant_app.services.work import run_work

REACT = "safety.react"
UNASKED, ANSWERED, FAILED = "unasked", "answered", "failed"
"""What became of the classifier."""
_SHOWN_FROM = 12
"""Of a shorter token not even the last four characters are shown."""


class SafetyLook(StrEnum):
    """Whether the safety check holds now."""

    DONE = "done"
    GOING_ON = "going_on"
    OUTDATED = "outdated"
    """The organization's settings have changed since."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SafetyCheck:
    settings: str
    """Fingerprint of those that it was made with; empty where it stopped half-way."""
    classifier: str
    sentence: str
    """Why the classifier could not check the rows."""
    rows: int
    """Refused ones."""

    @property
    def has_failed(self) -> bool:
        return self.classifier == FAILED


@dataclass(frozen=True, slots=True)
class SafetyInput:
    """What the check needs, read before it begins."""

    version_id: UUID
    settings: SafetySettings
    names_split: bool
    organization_id: UUID
    sealed: str = field(default="", repr=False)
    """The classifier's token; it is opened where it is sent."""


def settings_of(session: Session, organization_id: UUID) -> SafetySettings:
    row = session.get(SafetyChoice, organization_id)
    if row is None:
        return SafetySettings()
    command = tuple(map(str, row.command))
    return SafetySettings(
        tuple(map(str, row.words)),
        row.kind,
        command,
        row.url,
        row.seconds,
        row.is_private_allowed,
        row.header,
        row.last_four,
        row.sealed != "",
    )


def show_settings(session: Session, caller: Caller) -> SafetySettings:
    caller.require(Permission.SEE)
    if caller.organization_id is None:
        raise NotFound("The operator belongs to no organization. Act as a member: --as their e-mail address.")
    return settings_of(session, caller.organization_id)


def set_words(session: Session, caller: Caller, text: str) -> None:
    """Words that no row may hold, one a line."""
    caller.require(Permission.ADMINISTER)
    words = read_words(text)
    assert caller.organization_id is not None
    _choice(session, caller.organization_id).words = list(words)
    write_audit(session, caller, "safety.words", caller.organization_id, words=len(words))


def set_address(session: Session, caller: Caller, url: str, seconds: str) -> None:
    """The address of a classifier; empty asks none. Rows leave this installation for it."""
    caller.require(Permission.ADMINISTER)
    assert caller.organization_id is not None
    row = _choice(session, caller.organization_id)
    # A command, or an address inside this network, was the operator's choice: it ends with another one.
    _choose(row, read_url(url) if url.strip() else "", (), read_seconds(seconds), is_private_allowed=False)
    write_audit(session, caller, "safety.address", caller.organization_id, url=row.url)


def set_token(session: Session, caller: Caller, token: str, header: str = "") -> None:
    """What the classifier's address asks for: sealed, never shown again, and gone with the address. Empty: none is sent."""
    caller.require(Permission.ADMINISTER)
    assert caller.organization_id is not None
    _keep_token(session, caller, caller.organization_id, token, header)


def set_operators_token(session: Session, caller: Caller, organization_id: UUID, token: str, header: str = "") -> None:
    """The same for an address that the operator chose."""
    caller.require(Permission.OPERATE)
    _require_organization(session, organization_id)
    _keep_token(session, caller, organization_id, token, header)


def set_command(session: Session, caller: Caller, organization_id: UUID, command: str, seconds: str) -> None:
    """A program of this computer, which only the operator may choose; empty asks none."""
    caller.require(Permission.OPERATE)
    _require_organization(session, organization_id)
    row = _choice(session, organization_id)
    _choose(row, "", read_command(command), read_seconds(seconds), is_private_allowed=False)
    write_audit(session, caller, "safety.command", organization_id, organization_id=organization_id)


def set_private_address(session: Session, caller: Caller, organization_id: UUID, url: str, seconds: str) -> None:
    """An address that may lie inside this network, which only the operator may choose."""
    caller.require(Permission.OPERATE)
    _require_organization(session, organization_id)
    row = _choice(session, organization_id)
    read = read_url(url, is_private_allowed=True)
    _choose(row, read, (), read_seconds(seconds), is_private_allowed=True)
    write_audit(session, caller, "safety.private_address", organization_id, organization_id=organization_id, url=read)


def check_again(session: Session, caller: Caller, version_id: UUID) -> None:
    """Look through a frozen version once more, by the settings of now; its rows stay as they are."""
    caller.require(Permission.PREPARE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    if version.state is not VersionState.FROZEN:
        raise Conflict("Only a frozen version is looked through by itself. Check the draft instead.")
    version.safety_asked_at = now_of(session)
    promise(session, REACT, version.id)
    write_audit(session, caller, "safety.check", version.id)


def read_input(session: Session, version_id: UUID) -> SafetyInput:
    version = session.get_one(DatasetVersion, version_id)
    settings = settings_of(session, version.organization_id)
    choice = session.get(SafetyChoice, version.organization_id)
    sealed = choice.sealed if choice is not None else ""
    return SafetyInput(version.id, settings, bool(version.split.get("files")), version.organization_id, sealed)


def is_asked(session: Session, version_id: UUID) -> bool:
    version = session.get_one(DatasetVersion, version_id)
    return version.safety_asked_at is not None and version.report is not None


def check_files(job: SafetyInput, files: Mapping[str, Path], folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Look through the splits' files in a process of its own; the part of a version's report that this is."""
    work = {
        "files": {split: str(path) for split, path in files.items()},
        "words": job.settings.words,
        "names_split": job.names_split,
    }
    found = run_work("tensorant_app.services.safety_work", work, folder, beat)
    refused = {(split, row) for split, row in found["refused"]}
    state, sentence = UNASKED, ""
    if job.settings.kind is not ClassifierKind.NONE:
        state, sentence, more = _ask_classifier(job, files, refused, beat)
        found["safety"] += more
        refused |= {(one["split"], one["row"]) for one in more}
    checked = {"settings": job.settings.fingerprint, "classifier": state, "sentence": sentence, "rows": len(refused)}
    return {"safety": sorted(found["safety"], key=lambda one: one["row"]), "safety_check": checked}


def _ask_classifier(
    job: SafetyInput, files: Mapping[str, Path], refused: set[tuple[str, int]], beat: Callable[[], None]
) -> tuple[str, str, list[dict[str, Any]]]:
    from tensorant_app.services.safety_work import name_of, read_rows

    # A row with a secret or a listed word is refused already, and leaves this computer for nobody.
    rows: Iterator[Mapping[str, Any]] = (
        {"split": split, "row": row, "example": example}
        for split, row, example in read_rows({split: str(path) for split, path in files.items()})
        if (split, row) not in refused
    )
    try:
        token = sealing.unseal_token(job.organization_id, job.sealed) if job.sealed else ""
        found = classify(job.settings, rows, beat, token)
    except (NotChecked, AuthFailed) as error:
        return FAILED, f"The classifier could not check the rows. {error}", []
    return (
        ANSWERED,
        "",
        [
            {
                "split": one.split,
                "row": one.row,
                "path": "",
                "code": SafetyCode.CLASSIFIER.value,
                "message": f"{name_of(one.split, one.row, names_split=job.names_split)}: the classifier refuses it"
                + (f": {one.reason}" if one.reason else "."),
            }
            for one in found
        ],
    )


def finish(session: Session, version_id: UUID, found: Mapping[str, Any], asked: SafetyInput) -> bool:
    """Whether the result was taken: not where the settings changed meanwhile, for then it is looked through again."""
    version = session.get_one(DatasetVersion, version_id)
    if settings_of(session, version.organization_id) != asked.settings:
        return False
    version.report = {**(version.report or {}), **found}
    version.safety_asked_at = None
    return True


def note_failure(session: Session, version_id: UUID, sentence: str) -> None:
    """The look stopped half-way: what was found before stays, and it is said."""
    version = session.get_one(DatasetVersion, version_id)
    checked = {"settings": "", "classifier": FAILED, "sentence": sentence, "rows": 0}
    version.report = {**(version.report or {}), "safety_check": checked}
    version.safety_asked_at = None


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    asked = col(DatasetVersion.safety_asked_at).is_not(None)
    ensure(session, REACT, session.exec(select(DatasetVersion.id).where(asked)))


def _choice(session: Session, organization_id: UUID) -> SafetyChoice:
    row = session.get(SafetyChoice, organization_id)
    if row is None:
        row = SafetyChoice(organization_id=organization_id, changed_at=now_of(session), words=[], command=[])
        session.add(row)
    row.changed_at = now_of(session)
    return row


def _keep_token(session: Session, caller: Caller, organization_id: UUID, text: str, header: str) -> None:
    token, name = read_token(text), read_header(header)
    if settings_of(session, organization_id).kind is not ClassifierKind.HTTP:
        raise Conflict("No address is asked, so nobody wants a token. Save the classifier's address first.")
    row = _choice(session, organization_id)
    row.header, row.last_four = (name, token[-4:] if len(token) >= _SHOWN_FROM else "") if token else ("", "")
    row.sealed = sealing.seal_token(session, organization_id, token) if token else ""
    write_audit(session, caller, "safety.token", organization_id, organization_id=organization_id, is_sent=bool(token))


def _choose(row: SafetyChoice, url: str, command: Sequence[str], seconds: int, *, is_private_allowed: bool) -> None:
    if url != row.url:
        # A token is for the address that it was given for, and shown to no other one.
        row.header = row.sealed = row.last_four = ""
    kind = ClassifierKind.COMMAND if command else ClassifierKind.HTTP if url else ClassifierKind.NONE
    row.kind, row.url, row.command, row.seconds = kind, url, list(command), seconds
    row.is_private_allowed = is_private_allowed


def _require_organization(session: Session, organization_id: UUID) -> None:
    if session.get(Organization, organization_id) is None:
        raise Invalid({"organization": f"There is no organization {organization_id}."})


def read_check(stored: Mapping[str, Any]) -> SafetyCheck:
    """From a stored report; one without was made by the built-in check alone."""
    if "safety_check" in stored:
        return SafetyCheck(**stored["safety_check"])
    rows = len({one["row"] for one in stored["safety"]})
    return SafetyCheck(SafetySettings().fingerprint, UNASKED, "", rows)


def look_of(session: Session, version: DatasetVersion) -> SafetyLook:
    if version.safety_asked_at is not None:
        return SafetyLook.GOING_ON
    if version.report is None:
        return SafetyLook.DONE
    checked = read_check(version.report)
    if checked.has_failed:
        return SafetyLook.FAILED
    is_current = checked.settings == settings_of(session, version.organization_id).fingerprint
    return SafetyLook.DONE if is_current else SafetyLook.OUTDATED
