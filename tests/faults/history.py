"""A random history: what people, provider and computer do to a console, drawn by a seed and the same each time."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlmodel import select

from jobs import broker
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import Promise, claim_due
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain import watching
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.machines import HOLDS_SLOT, MachineState
from tensorant_app.domain.runs import LIFECYCLE, RunState
from tensorant_app.services import evaluations, machine_actions, recoveries, runs, slots, strays
from tensorant_app.services.accounts import THIS_COMPUTER
from tests.faults.arming import WHERE_THEY_DELETE_THEMSELVES, WITH_OWN_DISKS, arm_some
from tests.faults.boundary import Crash
from tests.faults.invariants import RESTED_HOURS, Watch, require
from tests.faults.site import API_KEY, Site
from tests.faults.spoiling import Spoiler
from tests.runpod_emulator import Fault
from tests.runpod_emulator.wire import ApiError

_MOST_RUNS = 3
_SOON_OVER = timedelta(minutes=10)
"""Most of what is going on when the faults end is over by then."""
_PAUSES = (1, 3, 10, 10, 20, 20, 45, 90, 300)
"""Seconds between two things that happen."""
_LOOKS = frozenset({"accounts.sweep", "accounts.poll"})
_QUIET = _LOOKS | {"connections.check", "offers.refresh"}


@dataclass(slots=True)
class History:
    """Runs one history on an open site; `Broken` says which promise was not kept."""

    site: Site
    draw: random.Random
    log: list[str] = field(default_factory=list)
    """What happened, in order: printed when a promise was broken."""
    runs: list[UUID] = field(default_factory=list)
    _watch: Watch = field(init=False)
    _spoiler: Spoiler = field(init=False)

    def __post_init__(self) -> None:
        self._spoiler = Spoiler(self.draw, self.site.volume)
        self._watch = Watch(self.site, self._spoiler)

    @property
    def watch(self) -> Watch:
        return self._watch

    def live(self, length: int) -> None:
        """The whole of it: trouble, healing, tidying up, and the bill."""
        for _ in range(self.draw.choice([0, 1, 2, 3])):
            self._arm_faults()
        self._act(self._launch)
        for _ in range(length):
            self._act(self.draw.choices(*zip(*self._acts(), strict=True))[0])
            self._pass(self.draw.choice(_PAUSES))
        self._heal()
        self._rest(minutes=60 * RESTED_HOURS)
        self._watch.everybody_can_act()
        self._pass(watching.SWEEP.total_seconds() + 30)
        self._watch.nobody_is_unknown(for_seconds=watching.SWEEP.total_seconds())
        self._tidy_up()
        self._watch.finish()
        self._settle_bill()
        self._watch.spend_is_the_bill()

    # What can happen, and how often.

    def _acts(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._launch, 4),
            (self._arm_faults, 4),
            (self._plan_crash, 2),
            (self._plan_lost_lease, 1),
            (self._plan_lost_ask, 1),
            (self._deliver_twice, 2),
            (self._jump, 0.7),
            (self._cancel, 1),
            (self._pause, 1),
            (self._resume, 1),
            (self._extend, 0.7),
            (self._verify, 0.7),
            (self._confirm_absent, 1),
            (self._retry_cleanup, 0.7),
            (self._terminate_stray, 0.7),
            (self._cancel_evaluation, 0.4),
            (self._watch_page, 0.7),
            (self._change_slots, 0.4),
            (self._revoke_key, 0.4),
            (self._save_key, 0.7),
            (self._delete_by_hand, 0.5),
            (self._copy_by_hand, 1),
            (self._tear_report, 1),
            (self._damage_adapter, 1),
            (self._restart, 0.5),
            (self._restart_database, 0.3),
            (self._nothing, 3),
        ]

    def _nothing(self) -> None:
        pass

    def _launch(self) -> None:
        """A new one; or one that its checks returned, as a person does who mended what they found."""
        with reading() as session:
            drafts = [run_id for run_id in self.runs if session.get_one(Run, run_id).state is RunState.DRAFT]
        if drafts:
            self.site.console.launch(drafts[0], evaluates=self.draw.random() < 0.4)
            return
        if len(self.runs) >= _MOST_RUNS:
            return
        wait = timedelta(hours=self.draw.choice([0, 0, 1]))
        run_id = self.site.console.draft(
            hours=self.draw.choice([0.25, 2.0]), limit=self.draw.choice(["1.00", "5.00"]), wait=wait
        )
        self.runs.append(run_id)
        self.site.console.launch(run_id, evaluates=self.draw.random() < 0.4)

    def _arm_faults(self) -> None:
        here = {} if self.site.has_volume else dict(WITH_OWN_DISKS)
        here |= WHERE_THEY_DELETE_THEMSELVES if self.site.script.self_release is not None else {}
        self.log += arm_some(self.draw, self.site.account.faults, here)

    def _plan_crash(self) -> None:
        self.site.boundary.arm(self.draw.randint(1, 25), _crash)

    def _plan_lost_lease(self) -> None:
        """At some request the job is so slow that another worker takes it over, does it, and is done."""
        self.site.boundary.arm(self.draw.randint(1, 12), self._take_over, spares_commits=True)

    def _plan_lost_ask(self) -> None:
        """Whoever asks for the next machine never gets to write down that there is one."""
        self.site.boundary.arm_once_asked(self.draw.choice([_crash, self._take_over]))

    def _take_over(self) -> None:
        self.site.clock.advance(seconds=80)
        self._deliver(*self.current)

    current: tuple[str, UUID] = ("", UUID(int=0))

    def _deliver(self, kind: str, subject_id: UUID) -> None:
        if not kind:
            return
        boundary, before = self.site.boundary, self.site.boundary.is_look
        boundary.is_look = kind in _LOOKS
        try:
            broker.perform(kind, str(subject_id))
        finally:
            boundary.is_look = before

    def _deliver_twice(self) -> None:
        with reading() as session:
            rows = sorted((row.kind, row.subject_id) for row in session.exec(select(Promise)))
        for kind, subject_id in self.draw.sample(rows, min(3, len(rows))):
            self._deliver(kind, subject_id)
            self._deliver(kind, subject_id)

    def _jump(self) -> None:
        self.site.skew = timedelta(seconds=self.draw.choice([-3600, -300, -30, 0, 30, 300, 3600]))

    def _cancel(self) -> None:
        self._on_run(runs.cancel_run)

    def _pause(self) -> None:
        self._on_run(recoveries.pause_run)

    def _resume(self) -> None:
        self._on_run(recoveries.resume_run, RunState.PAUSED)

    def _extend(self) -> None:
        self._on_run(
            lambda s, c, r: recoveries.extend_run(s, c, r, self.draw.choice([1.0, 3.0])), RunState.NEEDS_RECOVERY
        )

    def _verify(self) -> None:
        self._on_run(recoveries.verify_run, RunState.NEEDS_RECOVERY)

    def _confirm_absent(self) -> None:
        self._on_run(machine_actions.confirm_run_absent, RunState.LAUNCHING)

    def _retry_cleanup(self) -> None:
        for row in self.machines(MachineState.RELEASE_FAILED)[:1]:
            self._do(machine_actions.retry_cleanup, row.id)

    def _terminate_stray(self) -> None:
        with reading() as session:
            found = strays.list_strays(session, self.site.console.caller)
        for view in found[:1]:
            self._do(strays.terminate_stray, view.id)

    def _cancel_evaluation(self) -> None:
        with reading() as session:
            found = sorted(row.id for row in session.exec(select(Evaluation)) if row.run_id is not None)
        for evaluation_id in found[:1]:
            self._do(evaluations.cancel_evaluation, evaluation_id)

    def _watch_page(self) -> None:
        for row in self.machines(MachineState.HELD)[:1]:
            self._do(machine_actions.watch_machine, row.id)

    def _change_slots(self) -> None:
        self._do(slots.set_slots, self.draw.choice(["1", "2", "3"]))

    def _revoke_key(self) -> None:
        self.site.account.faults.arm(Fault.KEY_REVOKED, seconds=self.draw.choice([20, 200]))

    def _save_key(self) -> None:
        self.site.console.save_key(API_KEY)

    def _delete_by_hand(self) -> None:
        alive = self.site.account.alive()
        if alive:
            self.draw.choice(alive).terminate(self.site.clock())

    def _copy_by_hand(self) -> None:
        """Somebody makes a Pod from one of ours at the provider: it says whose it is, and no row knows it."""
        pods = list(self.site.account.pods.values())
        if pods:
            spec = self.draw.choice(pods).spec
            copy = {"name": f"tune-{UUID(int=self.draw.getrandbits(128))}", "entrypoint": [], "cmd": [], "args": ""}
            with suppress(ApiError):  # No capacity, no money.
                self.site.account.create({**spec, **copy})

    def _tear_report(self) -> None:
        self._spoiler.plan_torn_report()

    def _damage_adapter(self) -> None:
        self._spoiler.plan_damage()

    def _restart(self) -> None:
        self.site.console.restart()

    def _restart_database(self) -> None:
        self.site.reopen_database()

    # How it happens.

    def _act(self, act: Callable[[], None]) -> None:
        name = getattr(act, "__name__", "?").strip("_")
        if name != "nothing":
            self.log.append(f"{self.site.clock():%H:%M:%S} {name}")
        try:
            act()
        except TensorantError as refusal:
            self.log.append(f"  refused: {str(refusal).splitlines()[0]}")
        except Crash:
            self._die()

    def _pass(self, seconds: float) -> None:
        before = self.site.boundary.is_armed, self.site.skew
        self.site.clock.advance(seconds=seconds)
        self.site.world.tick()
        self.log += self._spoiler.strike()
        is_whole = self._work()
        self._watch.look(is_settled=is_whole and not before[0] and before[1] == timedelta(0))

    def _work(self) -> bool:
        """Do what is due; False where the process died over it."""
        try:
            for _ in range(60):
                claims = claim_due()
                for claim in claims:
                    if claim.kind in self.site.console.leaves_out or claim.subject_id == THIS_COMPUTER:
                        continue  # Of this computer nothing is rented here.
                    self.current = (claim.kind, claim.subject_id)
                    self._deliver(claim.kind, claim.subject_id)
                if not claims:
                    return True
            require(False, "comes_to_rest", f"the jobs never come to rest: {claims[:3]}")
        except Crash:
            self._die()
        return False

    def _die(self) -> None:
        """A new process begins; the supervisor may know whose leases to give up, or not."""
        self.log.append("  died")
        from tensorant_app.db import session as session_module

        session_module._open.yes = False
        self.site.reopen_database()
        self.site.clock.advance(seconds=2)
        if self.draw.random() < 0.5:
            self.site.console.restart()

    def _on_run(self, act: Any, state: RunState | None = None) -> None:
        with reading() as session:
            rows = [session.get_one(Run, run_id) for run_id in self.runs]
        found = [row.id for row in rows if row.state not in LIFECYCLE.final and state in (None, row.state)]
        if found:
            self._do(act, self.draw.choice(found))

    def _do(self, act: Any, *given: Any) -> None:
        with unit_of_work() as session:
            act(session, self.site.console.caller, *given)

    def machines(self, *states: MachineState) -> list[Machine]:
        with reading() as session:
            return [row for row in session.exec(select(Machine).order_by(Machine.name)) if row.state in states]  # type: ignore[arg-type]

    # How it ends.

    def _heal(self) -> None:
        self.log.append(f"{self.site.clock():%H:%M:%S} healed")
        self.site.boundary.disarm()
        self.site.account.faults.clear()
        self._spoiler.clear()
        self.site.account.revoked_until = None
        self.site.skew = timedelta(0)
        self.site.console.save_key(API_KEY)
        self._do(slots.set_slots, "3")
        self.site.console.restart()

    def _rest(self, *, minutes: float) -> None:
        """Nothing happens but time, until nothing goes on any more; in longer steps once it lasts."""
        began = self.site.clock()
        while (passed := self.site.clock() - began) < timedelta(minutes=minutes):
            self._pass(60 if passed < _SOON_OVER else 180)
            if self.is_quiet():
                return

    def is_quiet(self) -> bool:
        with reading() as session:
            states = {session.get_one(Run, run_id).state for run_id in self.runs}
        moving = (
            states
            - LIFECYCLE.final
            - {RunState.PAUSED, RunState.NEEDS_RECOVERY, RunState.DRAFT, RunState.ADAPTER_READY}
        )
        return not moving and not self.machines(*HOLDS_SLOT)

    def _tidy_up(self) -> None:
        """People end what has not ended: every way out must lead there."""
        for _ in range(40):
            with reading() as session:
                rows = [session.get_one(Run, run_id) for run_id in self.runs]
                scored = [row.evaluation_id for row in rows if row.state is RunState.EVALUATING]
                shown = strays.list_strays(session, self.site.console.caller)
            for row in rows:
                if row.state in LIFECYCLE.steps["cancel"].sources:
                    self._try(runs.cancel_run, row.id)
                self._try(machine_actions.confirm_run_absent, row.id)
            for evaluation_id in filter(None, scored):
                self._try(evaluations.cancel_evaluation, evaluation_id)
            with reading() as session:
                own = [row.id for row in session.exec(select(Evaluation)) if row.run_id is not None]
            for evaluation_id in own:
                self._try(machine_actions.confirm_evaluation_absent, evaluation_id)
            for view in shown:
                self._try(strays.terminate_stray, view.id)
            self._pass(60)
            if self.is_quiet() and not self.site.account.alive():
                return
        held = [(row.name, row.state, row.reason) for row in self.machines(*HOLDS_SLOT)]
        alive = [pod.name for pod in self.site.account.alive()]
        require(False, "nothing_leaks", f"never tidy: {held} hold slots, {alive} are alive")

    def _try(self, act: Any, subject_id: UUID) -> None:
        with suppress(TensorantError):  # Its turn comes later, or it has ended.
            self._do(act, subject_id)

    def _settle_bill(self) -> None:
        self.site.console.leaves_out = _QUIET
        for hours in (0.75, 2.5, 4, 2.5, 38, 4):
            self.site.clock.advance(hours=hours)
            self._work()


def _crash() -> None:
    raise Crash
