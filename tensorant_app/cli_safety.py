"""Commands of whoever looks after the installation: an organization's classifier that reads data on this computer."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tensorant_app.db import migrate
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.members import operator
from tensorant_app.domain.safety_settings import DEFAULT_SECONDS
from tensorant_app.services import organizations, safety

safety_app = typer.Typer(no_args_is_help=True, help="Classifiers that an organization's rows are shown to.")

Seconds = Annotated[int, typer.Option(help="What it may take for all rows of a version.")]
Organization = Annotated[str, typer.Argument(help="Its name or id.")]


@safety_app.command("command")
def set_command(
    organization: Organization,
    command: Annotated[str, typer.Argument(help="As one would type it; no shell reads it. Empty asks none.")],
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Ask a program of this computer: rows on its standard input, refused ones on its standard output."""
    migrate.require_current()
    with unit_of_work() as session:
        organization_id = organizations.find_organization(session, operator(), organization)
        safety.set_command(session, operator(), organization_id, command, str(seconds))
    print("No classifier is asked." if not command.strip() else "The command is asked from now on.", flush=True)


@safety_app.command("address")
def set_address(organization: Organization, url: str, seconds: Seconds = DEFAULT_SECONDS) -> None:
    """Ask an address that may lie inside this network; an owner or admin can only choose public ones."""
    migrate.require_current()
    with unit_of_work() as session:
        organization_id = organizations.find_organization(session, operator(), organization)
        safety.set_private_address(session, operator(), organization_id, url, str(seconds))
    print("The address is asked from now on.", flush=True)


@safety_app.command("token")
def set_token(
    organization: Organization,
    header: Annotated[str, typer.Option(help="Header that bears it; without it Authorization: Bearer.")] = "",
) -> None:
    """Seal the token that the classifier's address asks for; it is read from standard input. An empty line: none is sent."""
    migrate.require_current()
    is_typed = sys.stdin.isatty()
    text = typer.prompt("Token", "", hide_input=True, show_default=False) if is_typed else sys.stdin.readline()
    with unit_of_work() as session:
        organization_id = organizations.find_organization(session, operator(), organization)
        safety.set_operators_token(session, operator(), organization_id, text, header)
        found = safety.settings_of(session, organization_id)
    print(found.token_words, flush=True)
