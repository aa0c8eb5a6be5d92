"""The state of a run's page: one look a second while the run is live, and only what changed is sent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import reflex as rx

from tensorant_app.components.checks import CheckLine
from tensorant_app.components.figures import EMPTY, loss_figure, metric_figure
from tensorant_app.components.logs import LogLine
from tensorant_app.components.steppers import Phase
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.spend import SpendState
from tensorant_app.pages import run_words as words
from tensorant_app.pages.frame import segment
from tensorant_app.pages.machine_card import Cost, Machine, cost_of, machine_of
from tensorant_app.pages.recovery_words import Ways, ways_of
from tensorant_app.pages.run_samples import CheckpointRow, PromptRow, checkpoints_of, prompts_of
from tensorant_app.pages.run_trial import Trial, trial_of
from tensorant_app.pages.run_words import EventRow, Head, Numbers, Origin, SettingRow, Trouble
from tensorant_app.services import (
    adapter_uploads,
    logs,
    machine_actions,
    metrics,
    recoveries,
    run_details,
    runs,
    samples,
    sessions,
    trials,
)
from tensorant_app.services.adapter_uploads import UploadedView
from tensorant_app.services.logs import FIRST_LINES, Cursor, Happening, News
from tensorant_app.services.metrics import RunCurves
from tensorant_app.services.recoveries import Recovery
from tensorant_app.services.run_details import RunDetails
from tensorant_app.services.samples import Samples
from tensorant_app.services.sessions import as_caller
from tensorant_app.services.trials import TrialView
from tensorant_app.state import AppState, Work, id_of

_FRESH_LINES = 20
_SAY_LOOKING_SECONDS = 15.0
_BILL_SECONDS = 15.0
_RESTS = frozenset({SpendState.NONE, SpendState.SETTLED})
_BEFORE_STEPS = frozenset({RunState.QUEUED, RunState.LAUNCHING, RunState.PREPARING, RunState.TRAINING})
_HALTED = frozenset({RunState.PAUSED, RunState.NEEDS_RECOVERY})


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a run found."""

    run: RunDetails
    curves: RunCurves | None
    """None where there is no new point."""
    news: News
    happenings: list[Happening]
    trial: TrialView | None
    samples: Samples | None
    """None where there is no new answer."""
    recovery: Recovery
    uploaded: UploadedView | None


class RunPageState(AppState):
    head: Head = Head()
    numbers: Numbers = Numbers()
    phases: list[Phase] = []
    machine: Machine = Machine()
    cost: Cost = Cost()
    ways: Ways = Ways()
    origin: Origin = Origin()
    trial: Trial = Trial()
    trouble: Trouble = Trouble()
    machine_trouble: Trouble = Trouble()
    findings: list[CheckLine] = []
    settings: list[SettingRow] = []
    events: list[EventRow] = []
    lines: list[LogLine] = []
    fresh: list[LogLine] = []
    """The newest lines: a changed list is sent whole, so that the long one seldom changes."""
    loss_figure: dict[str, Any] = EMPTY
    gradient_figure: dict[str, Any] = EMPTY
    speed_figure: dict[str, Any] = EMPTY
    gradient: str = ""
    speed: str = ""
    points: list[list[str]] = []
    checkpoints: list[CheckpointRow] = []
    prompts: list[PromptRow] = []
    trend: str = ""
    waiting: str = ""
    has_points: bool = False
    log_axis: bool = True
    _curves: RunCurves | None = None
    _total: int = 0
    """Steps of the whole run: how long the axes are."""
    _cursor: Cursor = Cursor()
    _answers: str = ""
    """Which of its answers to the pinned prompts are shown."""
    _said_at: float = 0.0
    """When the machine was last told that somebody looks."""
    _turn: int = 0
    """Counts the looks begun by opening a page, so that the loop of an earlier one ends."""

    @rx.event
    async def load(self) -> Any:
        """The page is opened, reloaded or led to another run: everything anew."""
        self._turn += 1
        found = await self._see(self._look("", Cursor(), ""))
        if found is None:
            self.head = Head()
            return None
        self._forget()
        self._show(found)
        return RunPageState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        """Once a second while something can still change by itself; then seldom, until its bill rests."""
        pause = 1.0
        async with self:
            turn, address = self._turn, self._address()
            seen = self._seen()

        look: Work[Look] = lambda session, caller: _look(address, **seen)(session, caller)  # noqa: E731

        async def show(found: Look) -> bool:
            nonlocal pause
            if self._turn != turn or self._address() != address:
                return False
            self._show(found)
            seen.update(self._seen())
            await self._attend(found.run)
            pause = _BILL_SECONDS if found.run.is_settled else 1.0
            return not found.run.is_settled or found.run.spend.state not in _RESTS

        await self._watch(look, show, every=lambda: pause)

    @rx.event
    async def cancel(self) -> None:
        run_id = self._address()[1]
        await self._do(lambda session, caller: runs.cancel_run(session, caller, id_of(run_id)))
        if not self.error:
            await self._reload()

    @rx.event
    async def show_log_axis(self, value: bool) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.log_axis = value
            self._draw()

    async def _attend(self, run: RunDetails) -> None:
        """That somebody looks keeps a rented machine's numbers fresh: its heartbeat is read every few seconds."""
        machine = run.machine
        is_up = machine is not None and machine.is_rented and machine.state is MachineState.HELD
        if machine is None or not is_up or monotonic() - self._said_at < _SAY_LOOKING_SECONDS:
            return
        self._said_at = monotonic()
        work: Work[None] = lambda session, caller: machine_actions.watch_machine(session, caller, machine.id)  # noqa: E731
        with suppress(TensorantError):
            await asyncio.to_thread(as_caller, self.router.headers.cookie, work)

    def _forget(self) -> None:
        """Nothing of the run that this tab showed before is taken for one of this run."""
        self._curves, self._total, self._answers = None, 0, ""
        self.has_points, self.lines, self.fresh, self.points = False, [], [], []
        self.checkpoints, self.prompts = [], []
        self.loss_figure, self.gradient_figure, self.speed_figure = EMPTY, EMPTY, EMPTY
        self.trend, self.gradient, self.speed = "", "", ""

    async def _reload(self) -> None:
        found = await self._see(self._look(**self._seen()))
        if found is not None:
            self._show(found)

    def _address(self) -> tuple[str, str]:
        return segment(self, "projects"), segment(self, "runs")

    def _seen(self) -> dict[str, Any]:
        """How far the page has read what only grows."""
        version = self._curves.version if self._curves else ""
        return {"version": version, "cursor": self._cursor, "answers": self._answers}

    def _look(self, version: str, cursor: Cursor, answers: str) -> Work[Look]:
        return _look(self._address(), version, cursor, answers)

    def _show(self, found: Look) -> None:
        """Assign what differs: an assigned variable is sent, equal or not."""
        run = found.run
        self._set("head", words.head_of(run))
        self._set("numbers", words.numbers_of(run))
        self._set("phases", words.phases_of(run))
        self._set("machine", machine_of(run))
        self._set("cost", cost_of(run))
        self._set("ways", ways_of(found.recovery, found.uploaded))
        self._set("origin", words.origin_of(run))
        self._set("trial", trial_of(found.trial))
        self._set("trouble", words.trouble_of(run))
        self._set("machine_trouble", words.machine_trouble_of(run))
        self._set("findings", words.findings_of(run))
        self._set("settings", words.settings_of(run.settings))
        self._set("events", words.events_of(found.happenings))
        self._set("waiting", _waiting(run))
        self._show_lines(found.news)
        if found.samples is not None:
            self._answers = found.samples.version
            self._set("prompts", prompts_of(found.samples))
        if found.curves is not None:
            self._curves = found.curves
            self._total = run.progress.total_steps
            self._draw()

    def _set(self, name: str, value: Any) -> None:
        if getattr(self, name) != value:
            setattr(self, name, value)

    def _show_lines(self, news: News) -> None:
        self._cursor = news.cursor
        lines = [LogLine(line.at, line.level, line.words) for line in news.lines]
        if news.begins:
            self.lines, self.fresh = lines, []
        elif lines and len(self.fresh) + len(lines) > _FRESH_LINES:
            self.lines, self.fresh = [*self.lines, *self.fresh, *lines][-FIRST_LINES:], []
        elif lines:
            self.fresh = [*self.fresh, *lines]

    def _draw(self) -> None:
        found = self._curves
        if found is None:
            return
        total = self._total or None
        self.has_points = bool(found.training)
        self.loss_figure = loss_figure(
            found.training, found.smooth, found.validation, total_steps=total, log=self.log_axis
        )
        self.gradient_figure = metric_figure(found.gradient, total_steps=total)
        self.speed_figure = metric_figure(found.speed, total_steps=total)
        self.gradient = f"{found.last_gradient:.2f}" if found.last_gradient is not None else ""
        self.speed = f"{found.last_speed:,.0f}" if found.last_speed is not None else ""
        self._set("checkpoints", checkpoints_of(found.checkpoints))
        self.trend, self.points = found.sentence, [list(line) for line in found.table]


def _look(address: tuple[str, str], version: str, cursor: Cursor, answers: str) -> Work[Look]:
    project, run = address
    return lambda session, caller: Look(
        run_details.show_details(session, caller, id_of(project), id_of(run)),
        metrics.show_curves(session, caller, id_of(run), version),
        logs.read_log(session, caller, id_of(run), cursor),
        logs.list_happenings(session, caller, id_of(run)),
        trials.show_trial(session, caller, id_of(run)),
        samples.show_samples(session, caller, id_of(run), answers),
        recoveries.show_recovery(session, caller, id_of(run)),
        adapter_uploads.show_uploaded(session, caller, id_of(run)),
    )


def _waiting(run: RunDetails) -> str:
    """In place of a chart without points."""
    if run.state is RunState.DRAFT:
        return "The chart begins with the first step."
    if run.state in _BEFORE_STEPS:
        return "First step in a few minutes."
    return "No step was trained before it stopped." if run.state in _HALTED else "No step was trained."
