"""Commands for a run that does not simply go on, and for machines that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Column, Table

from tensorant_app.db import migrate
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import Caller, operator
from tensorant_app.services import machine_actions, organizations, recoveries, strays

run_app = typer.Typer(no_args_is_help=True, help="Training runs.")
machine_app = typer.Typer(no_args_is_help=True, help="Machines in the accounts that are connected.")
As = Annotated[str | None, typer.Option("--as", metavar="E-MAIL", help="Act as this member instead of the operator.")]
_out = Console(highlight=False, soft_wrap=True)


@run_app.command("pause")
def pause_run(run_id: UUID, as_: As = None) -> None:
    """Write a checkpoint and give the machine back; only `resume` goes on."""
    with caller_of(as_) as caller, unit_of_work() as session:
        recoveries.pause_run(session, caller, run_id)
    print("It is paused once its checkpoint is written; then its machine is given back.", flush=True)


@run_app.command("resume")
def resume_run(run_id: UUID, as_: As = None) -> None:
    """Queue a paused run again; it goes on from its last verified checkpoint."""
    with caller_of(as_) as caller, unit_of_work() as session:
        recoveries.resume_run(session, caller, run_id)
    print("Queued; the checks are looked at again before a machine is asked for.", flush=True)


@run_app.command("extend")
def extend_run(
    run_id: UUID,
    hours: Annotated[float, typer.Argument(help="The new maximum runtime, all attempts together.")],
    as_: As = None,
) -> None:
    """Allow a run a longer maximum runtime; one that needs recovery goes on."""
    with caller_of(as_) as caller, unit_of_work() as session:
        recoveries.extend_run(session, caller, run_id, hours)
    print(f"Its maximum runtime is {hours:g} h now.", flush=True)


@run_app.command("verify")
def verify_run(run_id: UUID, as_: As = None) -> None:
    """Look for a finished adapter on the volume, without a GPU."""
    with caller_of(as_) as caller, unit_of_work() as session:
        recoveries.verify_run(session, caller, run_id)
    print("The worker looks for it now; `tensorant runs show` tells what it found.", flush=True)


@run_app.command("confirm-absent")
def confirm_absent(run_id: UUID, as_: As = None) -> None:
    """Say that a launch whose answer was lost made no machine; the run ends cancelled."""
    with caller_of(as_) as caller, unit_of_work() as session:
        machine_actions.confirm_run_absent(session, caller, run_id)
    print("Cancelled. If the machine shows up after all, it is deleted at once.", flush=True)


@machine_app.command("unknown")
def list_unknown(as_: As = None) -> None:
    """Machines that bear this installation's name and that no run knows."""
    with caller_of(as_) as caller, reading() as session:
        views = strays.list_strays(session, caller)
    table = Table(Column("id", no_wrap=True, min_width=36), "name", "at the provider", "status", "price", box=None)
    for view in views:
        price = str(view.rate) if view.rate else "unknown"
        table.add_row(str(view.id), view.name, view.provider_id, view.provider_status, price)
    _out.print(table) if views else print("There are no unknown machines.", flush=True)


@machine_app.command("terminate")
def terminate(
    machine_id: Annotated[UUID, typer.Argument(help="As `tensorant machines unknown` prints it.")], as_: As = None
) -> None:
    """Delete an unknown machine; it is shown until it is proved gone."""
    with caller_of(as_) as caller, unit_of_work() as session:
        strays.terminate_stray(session, caller, machine_id)
    print("The worker deletes it now.", flush=True)


@contextmanager
def caller_of(email: str | None) -> Iterator[Caller]:
    """The operator, or the member whose e-mail address was given."""
    migrate.require_current()
    if email is None:
        yield operator()
        return
    with reading() as session:
        caller = organizations.caller_of(session, email)
    yield caller
