"""`make demo-runpod`: the console beside an emulated RunPod, in whose Pods the real trainer trains.

With `--headless` it walks by itself from import to gate and ends with what everything cost; otherwise the console opens
with everything prepared up to the launch, and the launch is yours. Once nothing is rented any more, the clock of console
and provider runs ahead until the bill rests; the computer's own clock is left alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from platformdirs import user_data_dir

from tensorant_app import cli, web
from tensorant_app.db import clock as clock_module
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD, ConnectionKind, ConnectionState
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, operator
from tensorant_app.domain.money import MICROS_PER_DOLLAR, Money
from tensorant_app.domain.spend import SpendState
from tensorant_app.domain.splits import Counts
from tensorant_app.log import set_up_logging
from tensorant_app.services import bases, connecting, demo, links, spend
from tensorant_app.services.links import LinkKind
from tensorant_app.settings import get_settings
from tensorant_app.supervisor import WORKER, Supervisor, web_child
from tests.later import AHEAD, Later, on_its_clock
from tests.runpod_emulator.emulator import Emulator
from tests.runpod_emulator.pods import Pace
from tests.runpod_emulator.processes import RealTrainer
from tests.runpod_emulator.settling import is_at_rest, settle_bills, unsettled

GPU = "NVIDIA L4"
RECIPE = replace(
    demo.GLOSSES,
    name="Glosses on RunPod",
    shares=Counts(train=240, validation=30, test=60),
    placement={"provider": RUNPOD, "gpu_types": [GPU], "rate_limit_micros": 1_000_000},
)
"""A minute of training on two cores, and just enough test rows for the gate to decide."""
PACE = Pace(provision=2, pull=4, settle=1, restart=1, billing_lag=5)
IMAGE = f"registry.example/tensorant-trainer@sha256:{'0' * 64}"
"""Nobody pulls it: an emulated Pod runs the trainer of this very tree."""
_LOOK_SECONDS = 0.5
_AHEAD = (
    "\nNothing is rented any more. A bill rests six hours after the release at the earliest: "
    "the clock of console and provider runs ahead."
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make demo-runpod", description=__doc__)
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(user_data_dir("tensorant-demo-runpod", appauthor=False)))
    args = parser.parse_args(arguments)
    # Whatever ends the demo, its Pods end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    later = clock_of(args.folder)
    trainer = RealTrainer(Path(sys.executable), clock=later)
    emulator = Emulator(args.folder / "runpod", clock=later, start=trainer.start, pace=PACE)
    # Its Pods' ids follow from the account's: those of an earlier demo stand in this console's books.
    emulator.account.id = f"demo-{later():%Y%m%d%H%M%S}"
    with emulator, passing_time(emulator), clock_module.reading_from(later):
        point_console_at(emulator, args.folder / "console")
        set_up_logging("demo")
        return walk(emulator, later) if args.headless else open_console(emulator, later)


def clock_of(folder: Path) -> Later:
    """It goes on where an earlier demo left it: time never goes backwards in a console's books."""
    folder.mkdir(parents=True, exist_ok=True)
    later = Later(folder / "ahead")
    if not later.path.exists():
        later.path.write_text("0")
    os.environ[AHEAD] = str(later.path)
    return later


@contextmanager
def passing_time(emulator: Emulator) -> Iterator[None]:
    """Pods live on while nobody asks about them."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(_LOOK_SECONDS):
            emulator.world.tick()

    clockwork = threading.Thread(target=tick, name="clockwork", daemon=True)
    clockwork.start()
    try:
        yield
    finally:
        over.set()
        clockwork.join()


def point_console_at(emulator: Emulator, data_dir: Path) -> None:
    """For this process and every child of its supervisor."""
    os.environ |= {
        "TENSORANT_DATA_DIR": str(data_dir),
        "TENSORANT_RUNPOD_API_URL": emulator.api_url,
        "TENSORANT_RUNPOD_S3_URL": emulator.s3_url,
        "TENSORANT_TRAINER_IMAGE": IMAGE,
    }
    get_settings.cache_clear()


def walk(emulator: Emulator, later: Later) -> int:
    """From import to gate; 0 only if the gate passed, no Pod is left, and both books say the same at last."""
    with Supervisor.running((on_its_clock(WORKER),)):
        caller = connected_owner(emulator)
        base = bases.fetch_demo_base(lambda line: cli.print_line(f"  {line}"))
        began = time.monotonic()
        outcome = demo.train(caller, demo.prepare(caller, base, RECIPE, cli.print_line), RECIPE, cli.print_line, began)
        wait_until(lambda: is_at_rest(emulator), seconds=180)
        cli.print_outcome(outcome)
        tell_books(emulator)
        cli.print_line(_AHEAD)
        is_settled = settle_bills(emulator, later)
    agrees = tell_settled(emulator, outcome.run_id)
    return 0 if outcome.passed and is_settled and agrees and not emulator.account.alive() else 1


def open_console(emulator: Emulator, later: Later) -> int:
    """Until Ctrl-C."""
    children = (on_its_clock(WORKER), on_its_clock(web_child(get_settings())))
    tree = Supervisor(children, check=web.require_startable)
    over = threading.Event()
    watch = threading.Thread(target=_settle_beside, args=(emulator, later, over), daemon=True)
    try:
        tree.run_forever(lambda: threading.Thread(target=_prepare_beside, args=(emulator, watch), daemon=True).start())
    finally:
        over.set()
    tell_books(emulator)
    return 0


def _settle_beside(emulator: Emulator, later: Later, over: threading.Event) -> None:
    """Each time when the last Pod is gone and nothing is at work."""
    while not over.wait(_LOOK_SECONDS):
        if unsettled(emulator) and is_at_rest(emulator):
            cli.print_line(_AHEAD)
            if settle_bills(emulator, later, is_over=over.is_set):
                cli.print_line("Every bill is settled; the run's page says so.")


def _prepare_beside(emulator: Emulator, then: threading.Thread) -> None:
    """While the console is open: sign-in link, connections, data and baseline; the launch is left to the person."""
    try:
        caller = connected_owner(emulator)
        with unit_of_work() as session:
            token = links.link_for(session, operator(), demo.OWNER, LinkKind.SIGN_IN)
        cli.print_line(f"\nThe console is open. This link signs you in, once:\n\n    {links.address_of(token)}\n")
        base = bases.fetch_demo_base(lambda line: cli.print_line(f"  {line}"))
        prepared = demo.prepare(caller, base, RECIPE, cli.print_line)
        runs = f"{get_settings().address}/projects/{prepared.project_id}/runs"
        cli.print_line(
            f"\nReady. A run is drafted; launch it on RunPod:\n\n    {runs}/{demo.draft(caller, prepared, RECIPE)}\n\n"
            f"or configure one of your own:\n\n    {runs}/new\n\n"
            f"The emulated RunPod answers at {emulator.api_url} (key {emulator.key}). Ctrl-C ends everything."
        )
        then.start()
    except TensorantError as error:
        print(error, file=sys.stderr, flush=True)


def connected_owner(emulator: Emulator) -> Caller:
    """The demo's owner, with both connections saved and found to work."""
    caller = demo.owner()
    access_key, secret_key = emulator.s3_keys
    volume = {"volume_id": emulator.volume.id, "data_center": emulator.volume.dc}
    typed = {
        ConnectionKind.RUNPOD_COMPUTE: {"api_key": emulator.key},
        ConnectionKind.RUNPOD_STORAGE: {"access_key": access_key, "secret_key": secret_key, **volume},
    }
    for kind, credentials in typed.items():
        with unit_of_work() as session:
            connecting.save_connection(session, caller, kind, credentials)
    wait_until(lambda: all(state is not ConnectionState.UNCHECKED for state in _states(caller)), seconds=60)
    cli.print_line(f"RunPod, emulated: connected to {emulator.api_url}, files in {emulator.volume.folder}")
    return caller


def _states(caller: Caller) -> list[ConnectionState]:
    with reading() as session:
        return [view.state for view in connecting.list_connections(session, caller)]


def wait_until(is_so: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def tell_books(emulator: Emulator) -> None:
    """What the provider itself knows to have happened."""
    cli.print_line("\nThe emulated RunPod's books")
    for pod in emulator.pods.values():
        end = pod.ended or emulator.clock()
        state = "deleted" if pod.ended else f"still {pod.status}"
        cli.print_line(
            f"  {pod.name}: {state} after {(end - pod.created).total_seconds():.0f} s, "
            f"asked for {emulator.account.creates(pod.name)} time(s), ${emulator.bill(pod):.6f}"
        )
    cli.print_line(f"  billed in all ${emulator.bill():.6f}; {len(emulator.world.calls):,} requests")


def tell_settled(emulator: Emulator, run_id: UUID) -> bool:
    """The demo's last line: what the run cost by both books; whether they agree and will say so for ever."""
    with reading() as session:
        cost = spend.machine_spend(session, Use.RUN, run_id)
    name = f"tune-{run_id}"
    billed = Money.dollars(sum((emulator.bill(pod) for pod in emulator.account.named(name)), Decimal(0)))
    agrees = cost.state is SpendState.SETTLED and cost.actual == billed
    said = f"{_exact(cost.actual)} by the console, {cost.state.value}; {_exact(billed)} by RunPod"
    cli.print_line(f"Spend of {name}: {said}. {'They agree.' if agrees else 'THEY DO NOT AGREE.'}")
    return agrees


def _exact(amount: Money | None) -> str:
    return "nothing" if amount is None else f"${Decimal(amount.micros) / MICROS_PER_DOLLAR:.6f}"


if __name__ == "__main__":
    sys.exit(main())
