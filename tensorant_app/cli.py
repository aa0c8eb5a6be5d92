"""The command `tensorant`. On the host a command acts as the operator, or as a member with --as their e-mail address."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Column, Table

from tensorant_app import cli_data, cli_edits, cli_operator, cli_recovery, cli_safety, web
from tensorant_app.cli_recovery import As
from tensorant_app.cli_recovery import caller_of as _caller
from tensorant_app.db import migrate
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.members import Role, operator
from tensorant_app.domain.sign_in import LinkKind
from tensorant_app.log import set_up_logging
from tensorant_app.services import demo as demo_walk
from tensorant_app.services import doctor as examination
from tensorant_app.services import drafts, file_checks, links, organizations, plans, runs, trial_words, trials
from tensorant_app.services.trials import TrialView
from tensorant_app.settings import get_settings
from tensorant_app.supervisor import WORKER, Supervisor, find_redis, stop_running, web_child

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
run_app = cli_recovery.run_app
app.add_typer(run_app, name="runs")
app.add_typer(cli_recovery.machine_app, name="machines")
admin_app = typer.Typer(no_args_is_help=True, help="People: owners, members, passwords. On the host, as the operator.")
app.add_typer(admin_app, name="admin")
admin_app.add_typer(cli_operator.gpus_app, name="gpus")
admin_app.add_typer(cli_safety.safety_app, name="safety")
app.add_typer(cli_operator.keys_app, name="keys")
cli_data.data_app.add_typer(cli_edits.edits_app)
app.add_typer(cli_data.data_app, name="data")

_out = Console(highlight=False, soft_wrap=True)


def main() -> None:
    """Errors of ours are sentences on stderr and exit code 1; anything else is a bug with its traceback."""
    try:
        app()
    except TensorantError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


@app.command()
def up(
    host: Annotated[str | None, typer.Option(help="Where to listen; this computer alone unless told.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The one port.")] = None,
) -> None:
    """Run Redis, the worker and the console until Ctrl-C; runs on this computer live on without them."""
    use_settings(host=host, port=port)
    set_up_logging("supervisor")
    console_tree().run_forever(print_doors)


def console_tree() -> Supervisor:
    return Supervisor((WORKER, web_child(get_settings())), check=web.require_startable)


def use_settings(*, host: str | None = None, port: int | None = None) -> None:
    """What the command line says counts more than the environment, for the children too."""
    for name, value in (("TENSORANT_HOST", host), ("TENSORANT_PORT", port)):
        if value is not None:
            os.environ[name] = str(value)
    get_settings.cache_clear()


def print_doors() -> None:
    """Where the console is open; while nobody owns it, the link that makes an owner."""
    print_line(f"\nTensorant is open at {get_settings().address}")
    if not links.has_owner():
        print_line(f"Nobody owns it yet. Set it up here, once:\n\n    {links.address_of(links.set_up_link())}\n")


@app.command()
def down() -> None:
    """Stop what `tensorant up` started; runs on this computer live on."""
    print("Stopping." if stop_running(get_settings().data_dir) else "Nothing is running here.")


@app.command()
def worker() -> None:
    """One more worker, for an installation with its own Redis and PostgreSQL."""
    migrate.upgrade()
    os.execv(sys.executable, [sys.executable, "-m", "jobs.worker"])


@app.command()
def demo(
    headless: Annotated[bool, typer.Option(help="Without the console; ends with the table.")] = False,
    test_rows: Annotated[
        int, typer.Option(min=20, max=300, help="Rows to score; fewer is faster, and proves less.")
    ] = demo_walk.TEST_ROWS,
) -> None:
    """Fine-tune a real model on this computer, from import to gate, and watch it in the console.

    Without the console it ends with 0 only if the gate passed.
    """
    set_up_logging("demo")
    if headless:
        with Supervisor.running():
            outcome = demo_walk.run_demo(print_line, test_rows)
        print_outcome(outcome)
        raise SystemExit(0 if outcome.passed else 1)
    tree = console_tree()
    tree.run_forever(lambda: threading.Thread(target=_walk_beside, args=(test_rows,), daemon=True).start())


def _walk_beside(test_rows: int) -> None:
    """The main job, while the console is open; it stays open afterwards."""
    try:
        demo_walk.owner()
        with unit_of_work() as session:
            token = links.link_for(session, operator(), demo_walk.OWNER, LinkKind.SIGN_IN)
        print_line(
            f"\nThe console is open. Watch there; this link signs you in, once:\n\n    {links.address_of(token)}\n"
        )
        print_outcome(demo_walk.run_demo(print_line, test_rows))
        print_line("\nThe console stays open: Ctrl-C ends it.")
    except TensorantError as error:
        print(error, file=sys.stderr, flush=True)


@app.command()
def doctor() -> None:
    """What this installation is made of, and whether each part works."""
    lines = examination.examine(find_redis)
    for line in lines:
        print(f"{'ok ' if line.is_well else 'BAD'} {line.part}: {line.sentence}")
    raise SystemExit(0 if all(line.is_well for line in lines) else 1)


@run_app.command("list")
def list_runs(as_: As = None) -> None:
    """Every run, newest first."""
    with _caller(as_) as caller, reading() as session:
        views = runs.list_runs(session, caller)
    identity = Column("id", no_wrap=True, min_width=36)
    table = Table(identity, "name", "purpose", "state", "step", "loss", "created", box=None)
    for view in views:
        steps = f"{view.step}/{view.total_steps}" if view.total_steps else ""
        loss = f"{view.loss:.3f}" if view.loss is not None else ""
        state = view.state.value.replace("_", " ")
        purpose = view.purpose.value
        table.add_row(str(view.id), view.name, purpose, state, steps, loss, f"{view.created_at:%Y-%m-%d %H:%M}")
    _out.print(table) if views else print("There are no runs yet.")


@run_app.command("show")
def show_run(run_id: UUID, as_: As = None) -> None:
    """One run: its state, settings, checks and events."""
    with _caller(as_) as caller, reading() as session:
        detail = runs.show_run(session, caller, run_id)
        trial = trials.show_trial(session, caller, run_id)
    view = detail.view
    what = f"{view.name}, a small training trial," if trial else view.name
    print(f"{what} is {view.state.value.replace('_', ' ')}. {view.sentence or ''}".rstrip())
    if trial:
        _print_trial(trial)
    for name, value in {**(detail.trial or {}), **detail.settings}.items():
        print(f"  {name} = {value}")
    for finding in detail.findings:
        print(f"  check {finding['check']}: {finding['verdict']}. {finding['sentence']}")
    for event in detail.events:
        print(
            f"  {event.at:%H:%M:%S} {event.verb} ({event.cause.value}) -> {event.state} {event.sentence or ''}".rstrip()
        )


def _print_trial(trial: TrialView) -> None:
    """The training trial report."""
    for line in trial_words.lines_of(trial):
        print(f"  {line.label}: {line.value}{f' ({line.under})' if line.under else ''}")
    report = trial.report
    for sentence in (
        *trial_words.missing_of(trial),
        *(report.advice if report else ()),
        *([report.note] if report else []),
    ):
        print(f"  {sentence}")


@run_app.command("full-draft")
def make_full_draft(run_id: UUID, as_: As = None) -> None:
    """The draft of the full run that a completed trial measured; saving it is free and starts nothing."""
    with _caller(as_) as caller, unit_of_work() as session:
        draft = drafts.create_full_draft(session, caller, run_id)
    print(f"Saved as {draft.id}. Launch it in the console, on the page of the run.")


@run_app.command("cancel")
def cancel_run(run_id: UUID, as_: As = None) -> None:
    """Stop a run at once; what it saved is kept."""
    with _caller(as_) as caller, unit_of_work() as session:
        runs.cancel_run(session, caller, run_id)
    print("Cancelled; its machine is being given back.")


@admin_app.command("create-owner")
def create_owner(email: str, organization: Annotated[str, typer.Option(help="A new organization's name.")]) -> None:
    """Make an organization and its owner; prints the link that sets their password."""
    migrate.upgrade()
    with unit_of_work() as session:
        organization_id = organizations.create_organization(session, operator(), organization)
        organizations.add_member(session, operator(), organization_id, email, Role.OWNER)
    _print_link(email, LinkKind.PASSWORD)


@admin_app.command("add-member")
def add_member(
    email: str,
    organization: Annotated[str, typer.Option(help="Its name or id.")],
    role: Annotated[Role, typer.Option()] = Role.MEMBER,
) -> None:
    """Add a person to an organization; prints the link that sets a new person's password."""
    migrate.require_current()
    with unit_of_work() as session:
        organization_id = organizations.find_organization(session, operator(), organization)
        organizations.add_member(session, operator(), organization_id, email, role)
        is_new = not organizations.has_password(session, operator(), email)
    _print_link(email, LinkKind.PASSWORD) if is_new else print_line(f"{email} is a {role} of {organization}.")


@admin_app.command("reset-password")
def reset_password(email: str) -> None:
    """Print a link that sets a new password and ends every session of this person."""
    _print_link(email, LinkKind.PASSWORD)


@admin_app.command("sign-in-link")
def sign_in_link(email: str) -> None:
    """Print a link that signs this person in, once, within a quarter of an hour."""
    _print_link(email, LinkKind.SIGN_IN)


def _print_link(email: str, kind: LinkKind) -> None:
    migrate.require_current()
    with unit_of_work() as session:
        token = links.link_for(session, operator(), email, kind)
    print_line(f"Hand this link to {email}; it works once:\n\n    {links.address_of(token)}\n")


@app.command("plan")
def show_plan(
    file: Path, as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False
) -> None:
    """How many steps and how much disk the run described in FILE is, and what is wrong with it."""
    report = plans.read_plan(file)
    if as_json:
        print(json.dumps(asdict(report), ensure_ascii=False))
        return
    for name, value in asdict(report).items():
        if isinstance(value, int):
            print(f"{name.replace('_', ' ')}: {value:,}")
    for sentence in (*report.errors, *report.warnings):
        print(sentence)


@app.command("trial")
def try_training(
    file: Path,
    base: Annotated[Path, typer.Option(help="Folder of the base model.")],
    validation: Annotated[Path | None, typer.Option(help="File of validation rows.")] = None,
    settings: Annotated[
        str, typer.Option(help="The full run's settings that differ from the defaults, as JSON.")
    ] = "{}",
    rows: int = 128,
    steps: int = 20,
    seed: int = 42,
    minutes: float = 20.0,
    price: Annotated[float | None, typer.Option(help="Dollars an hour of the machine, for the cost.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Train a few steps on FILE on this computer and say what the full run would take."""
    limits = {"rows": rows, "steps": steps, "seed": seed, "minutes": minutes}
    report = file_checks.try_training(file, base, validation, settings, limits)
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    print(f"{report['steps']} steps of {report['rows']} rows, {report['median_step_seconds']} s each (median).")
    if found := report["prediction"]:
        hours = {name: seconds / 3600 for name, seconds in found.items()}
        cost = f", ${hours['low'] * price:.2f} to ${hours['high'] * price:.2f}" if price else ""
        print(
            f"The full run's {report['full_run_steps']:,} steps would take {hours['low']:.2f} to {hours['high']:.2f} h{cost}."
        )
    for sentence in (*report["missing"].values(), *report["advice"], report["note"]):
        print(sentence)


@app.command("verify-adapter")
def verify_adapter(
    file: Path,
    base: Annotated[Path | None, typer.Option(help="Folder of the base model it belongs to.")] = None,
    max_rank: Annotated[int | None, typer.Option(help="The highest rank that your server takes; often 16.")] = None,
) -> None:
    """Whether FILE, an adapter.zip, is a sound adapter; exit code 1 and every reason where it is not."""
    for name, value in file_checks.verify_adapter(file, base, max_rank).items():
        print(f"{name}: {value}")


def print_line(line: str) -> None:
    print(line, flush=True)


def print_outcome(outcome: demo_walk.Outcome) -> None:
    table = Table(title="\nDemo", title_justify="left", show_header=False, box=None)
    for name, value in (
        ("test rows", f"{outcome.rows}"),
        ("base, exact match", f"{outcome.base_exact:.3f}"),
        ("base, likeliest label", f"{outcome.base_likelihood:.3f}"),
        ("tuned, exact match", f"{outcome.tuned_exact:.3f}"),
        ("gain", f"{outcome.gain:+.3f}  (95 % between {outcome.lower:+.3f} and {outcome.upper:+.3f})"),
        (
            "gain over likeliest label",
            f"{outcome.gain_over_likelihood:+.3f}, at least {outcome.gain_over_likelihood_lower:+.3f}",
        ),
        ("gate", f"{'passed' if outcome.passed else 'not passed'}: {outcome.sentence}"),
        ("time", f"{outcome.seconds:.0f} s after the base model was there"),
        ("peak memory of training", f"{outcome.peak_rss_mb:,} MB"),
        ("adapter", str(outcome.adapter_zip or "none")),
        ("run", str(outcome.run_id)),
    ):
        table.add_row(name, value)
    _out.print(table)


if __name__ == "__main__":
    main()
