"""What each state looks like: one table per state machine, an icon, a word and a colour for every state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.values import Number, Text, given
from tensorant_app.domain.connections import ConnectionState as Connection
from tensorant_app.domain.deployments import DeploymentState as Deployment
from tensorant_app.domain.evaluations import EvaluationState as Evaluation
from tensorant_app.domain.imports import ImportState as Import
from tensorant_app.domain.machines import MachineState as Machine
from tensorant_app.domain.runs import RunState as Run
from tensorant_app.domain.versions import VersionState as Version

Color = Literal["gray", "blue", "iris", "green", "amber", "red"]


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown, never by colour alone."""

    word: str
    icon: str
    color: Color = "gray"
    motion: Literal["", "spin", "pulse"] = ""
    """`spin` for a transition, `pulse` for work that goes on."""


_DRAFT = Look("Draft", "circle_dashed")
_QUEUED = Look("Queued", "clock_3")
_LAUNCHING = Look("Launching", "loader_circle", "blue", "spin")
_FAILED = Look("Failed", "circle_x", "red")
_CANCELLED = Look("Cancelled", "x")
_CHECKING = Look("Checking", "loader_circle", "blue", "spin")

RUN: Mapping[Run, Look] = {
    Run.DRAFT: _DRAFT,
    Run.QUEUED: _QUEUED,
    Run.LAUNCHING: _LAUNCHING,
    Run.PREPARING: Look("Preparing", "loader_circle", "blue", "spin"),
    Run.TRAINING: Look("Training", "circle_dot", "iris", "pulse"),
    Run.PAUSED: Look("Paused", "pause"),
    Run.PACKAGING: Look("Packaging", "package", "iris"),
    Run.ADAPTER_READY: Look("Adapter ready", "check", "green"),
    Run.EVALUATING: Look("Evaluating", "scale", "iris"),
    Run.COMPLETED: Look("Completed", "check_check", "green"),
    Run.NO_GAIN: Look("No gain", "equal", "amber"),
    Run.NEEDS_RECOVERY: Look("Needs recovery", "triangle_alert", "amber"),
    Run.FAILED: _FAILED,
    Run.REFUSED: Look("Refused", "ban", "red"),
    Run.CANCELLED: _CANCELLED,
}

MACHINE: Mapping[Machine, Look] = {
    Machine.ASKED: Look("Checking launch", "circle_help", "amber"),
    Machine.HELD: Look("Machine up", "server"),
    Machine.STOPPED: Look("Stopped", "circle_stop", "amber"),
    Machine.RELEASING: Look("Releasing", "loader_circle", "blue", "spin"),
    Machine.RELEASE_FAILED: Look("GPU release failed", "triangle_alert", "red"),
    Machine.RELEASED: Look("Released", "check"),
    Machine.ABSENT: Look("No machine", "minus"),
}

EVALUATION: Mapping[Evaluation, Look] = {
    Evaluation.QUEUED: _QUEUED,
    Evaluation.LAUNCHING: _LAUNCHING,
    Evaluation.RUNNING: Look("Scoring", "scale", "iris", "pulse"),
    Evaluation.COMPLETED: Look("Completed", "check", "green"),
    Evaluation.FAILED: _FAILED,
    Evaluation.CANCELLED: _CANCELLED,
}

VERSION: Mapping[Version, Look] = {
    Version.DRAFT: _DRAFT,
    Version.CHECKING: _CHECKING,
    Version.FREEZING: Look("Freezing", "loader_circle", "blue", "spin"),
    Version.FROZEN: Look("Frozen", "lock", "green"),
}

IMPORT: Mapping[Import, Look] = {
    Import.RECEIVING: Look("Receiving", "upload", "blue"),
    Import.CHECKING: _CHECKING,
    Import.READY: Look("Ready", "check", "green"),
    Import.FAILED: _FAILED,
    Import.CANCELLED: _CANCELLED,
}

DEPLOYMENT: Mapping[Deployment, Look] = {
    Deployment.QUEUED: _QUEUED,
    Deployment.LAUNCHING: _LAUNCHING,
    Deployment.STARTING: Look("Starting", "loader_circle", "blue", "spin"),
    Deployment.SERVING: Look("Serving", "radio", "green"),
    Deployment.STOPPING: Look("Stopping", "loader_circle", "blue", "spin"),
    Deployment.STOPPED: Look("Stopped", "circle_stop"),
    Deployment.FAILED: _FAILED,
}

CONNECTION: Mapping[Connection, Look] = {
    Connection.OK: Look("Connected", "check", "green"),
    Connection.FAILED: Look("Does not work", "circle_x", "red"),
    Connection.UNCHECKED: _CHECKING,
}

SECOND_BADGE = frozenset({Machine.STOPPED, Machine.RELEASING, Machine.RELEASE_FAILED})
"""The machine says more than the run only here; `asked` is shown when its answer is overdue."""


def badge(look: Look, extra: Text = "") -> rx.Component:
    """The badge of one look; `extra` stands behind the word ("61 %")."""
    dot = rx.el.span(class_name="pulse", aria_hidden=True)
    drawing = dot if look.motion == "pulse" else icon(look.icon, size=12, spins=look.motion == "spin")
    more = [rx.el.span(extra)] if given(extra) else []
    return soft_badge(drawing, look.word, *more, color=look.color)


def soft_badge(*children: rx.Component | Text, color: Color = "gray") -> rx.Component:
    """Soft and of high contrast: Radix's plain soft badge misses 4.5:1 in light."""
    return rx.badge(*children, variant="soft", high_contrast=True, color_scheme=color, class_name="bd")


def label(text: Text) -> rx.Component:
    """A plain label: Trial, Estimated, Actual, Overridden."""
    return rx.badge(text, variant="outline", color_scheme="gray", class_name="bd line")


def run_badge(state: Run | Text, percent: Number | None = None) -> rx.Component:
    """`percent` is shown while the run trains."""
    return _of(RUN, state, {} if percent is None else {Run.TRAINING: f"{percent} %"})


def machine_badge(state: Machine | Text, is_overdue: bool | rx.Var[bool] = True) -> rx.Component:
    """The second badge: only when the machine says more than the run. `is_overdue`: its answer is late or lost."""
    shown = {machine: MACHINE[machine] for machine in MACHINE if machine in SECOND_BADGE}
    quiet = rx.fragment()
    if isinstance(is_overdue, rx.Var):
        checking = rx.cond(is_overdue, badge(MACHINE[Machine.ASKED]), quiet)
    else:
        checking = badge(MACHINE[Machine.ASKED]) if is_overdue else quiet
    if not isinstance(state, rx.Var):
        if state == Machine.ASKED:
            return checking
        return badge(shown[Machine(state)]) if state in shown else quiet
    cases = [(machine.value, badge(look)) for machine, look in shown.items()]
    return rx.match(state, *cases, (Machine.ASKED.value, checking), quiet)


def machine_state_badge(state: Machine | Text) -> rx.Component:
    """Every state of a machine in words, for its own card."""
    return _of(MACHINE, state, {})


def evaluation_badge(state: Evaluation | Text, percent: Number | None = None) -> rx.Component:
    return _of(EVALUATION, state, {} if percent is None else {Evaluation.RUNNING: f"{percent} %"})


def version_badge(state: Version | Text) -> rx.Component:
    return _of(VERSION, state, {})


def import_badge(state: Import | Text, percent: Number | None = None) -> rx.Component:
    return _of(IMPORT, state, {} if percent is None else {Import.RECEIVING: f"{percent} %"})


def deployment_badge(state: Deployment | Text) -> rx.Component:
    return _of(DEPLOYMENT, state, {})


def connection_badge(state: Connection | Text) -> rx.Component:
    return _of(CONNECTION, state, {})


def gate_badge(passed: bool | rx.Var[bool]) -> rx.Component:
    """The gate's verdict."""
    good, bad = badge(Look("Gate passed", "check", "green")), badge(Look("No gain", "equal", "amber"))
    if isinstance(passed, rx.Var):
        return rx.cond(passed, good, bad)
    return good if passed else bad


def _of(table: Mapping[StrEnum, Look], state: StrEnum | Text, extras: Mapping[StrEnum, str]) -> rx.Component:
    if not isinstance(state, rx.Var):
        known = next(key for key in table if key == state)
        return badge(table[known], extras.get(known, ""))
    cases = [(key.value, badge(look, extras.get(key, ""))) for key, look in table.items()]
    return rx.match(state, *cases, soft_badge(state))
