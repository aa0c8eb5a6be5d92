"""What the provider billed: asked for while a machine lives, soon after its release, and until the bill rests."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Session

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import ProviderError
from tensorant_app.providers.base import BillInPart, BillLine, Provider
from tensorant_app.services import accounts, spend
from tensorant_app.services.spend import BillTask

_GONE = "The connection that this machine was rented with was removed, so its bill cannot be read."


@actor(spend.BILL, queue="fast")
def sync(lease: Lease) -> None:
    """One machine's bill. A refusal, or a removed connection, leaves what is known as it is."""
    try:
        with reading(clock.now()) as session:
            task = spend.read_task(session, lease.subject_id)
            door = accounts.open_door(session, task.account_id) if task else None
            quiet = accounts.quiet_until(session, task.account_id, clock.now()) if task else None
        if quiet is not None:
            with lease.write() as session:
                lease.again(session, quiet)
            return
        lines, trouble = _read(door.provider, task) if task is not None and door is not None else ([], None)
    except ProviderError as error:
        with lease.write() as session:
            _again(session, lease, spend.note_trouble(session, lease.subject_id, error.message, error.retry_after))
        return
    with lease.write() as session:
        if task is None:
            lease.done(session)
        elif door is None:
            _again(session, lease, spend.note_trouble(session, lease.subject_id, _GONE, None))
        else:
            _again(session, lease, spend.note_bill(session, lease.subject_id, lines, trouble=trouble))


def _read(provider: Provider, task: BillTask) -> tuple[list[BillLine], str | None]:
    """The bills of all that ever bore its name, and what could not be read of them."""
    lines: list[BillLine] = []
    trouble = None
    for provider_id in task.provider_ids:
        try:
            lines += provider.bill(provider_id, task.since, task.until)
        except BillInPart as error:
            lines += error.lines
            trouble = error.message
    return lines, trouble


def _again(session: Session, lease: Lease, at: datetime | None) -> None:
    if at is None:
        lease.done(session)
    else:
        lease.again(session, at)
