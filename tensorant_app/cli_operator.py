"""Commands of whoever looks after the installation: its keys, and the machine types that nobody may rent."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tensorant_app.db import migrate
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import operator
from tensorant_app.services import offers, sealing
from tensorant_app.settings import get_settings

keys_app = typer.Typer(no_args_is_help=True, help="The keys that seal the credentials of outside accounts.")
gpus_app = typer.Typer(no_args_is_help=True, help="Machine types that nobody of this installation may rent.")
_out = Console(highlight=False, soft_wrap=True)


@keys_app.command("rotate")
def rotate() -> None:
    """Seal everything with a new key and forget the old one; interrupted, it can simply be started again."""
    migrate.require_current()
    settings = get_settings()
    is_ours = settings.add_secret_key()
    with unit_of_work() as session:
        count = sealing.rotate_keys(session, operator())
    settings.drop_old_secret_keys()
    were = "1 connection is" if count == 1 else f"{count} connections are"
    rest = (
        "The old key is gone from the key file." if is_ours else "Take the old keys out of TENSORANT_SECRET_KEYS now."
    )
    print(f"{were} sealed with the newest key. {rest}", flush=True)


@gpus_app.command("off")
def switch_off(
    gpu_type: Annotated[str, typer.Argument(help="As the provider writes it, such as 'NVIDIA L40S'.")],
    sentence: Annotated[str, typer.Option(help="Why; people read it beside the type.")],
    contact: Annotated[str, typer.Option(help="Whom to ask: an address, a page.")] = "",
) -> None:
    """Let nobody rent this type from now on; machines that are there live on."""
    migrate.require_current()
    with unit_of_work() as session:
        offers.switch_off(session, operator(), gpu_type, sentence, contact)
    print(f"{gpu_type} is switched off.", flush=True)


@gpus_app.command("on")
def switch_on(gpu_type: str) -> None:
    """Let it be rented again."""
    migrate.require_current()
    with unit_of_work() as session:
        offers.switch_on(session, operator(), gpu_type)
    print(f"{gpu_type} can be rented again.", flush=True)


@gpus_app.command("list")
def list_switched_off() -> None:
    """The types that are switched off, and why."""
    migrate.require_current()
    with reading() as session:
        views = offers.list_switched_off(session, operator())
    table = Table("type", "why", "contact", "since", box=None)
    for view in views:
        table.add_row(view.gpu_type, view.sentence, view.contact, f"{view.switched_at:%Y-%m-%d %H:%M}")
    _out.print(table) if views else print("No machine type is switched off.", flush=True)
