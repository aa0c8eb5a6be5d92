"""The curves of a run: folded from the trainer's file as it grows, and built once for all who look."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeGuard
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.runs import Curve, Run
from tensorant_app.domain import curves
from tensorant_app.domain.curves import EMPTY, Bucket, Folded, Point, fold
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.providers.base import FileStore
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machines import MachineView
from trainer.contract import METRICS

LOSS, VALIDATION, GRADIENT, SPEED = "loss", "validation_loss", "grad_norm", "tokens_per_second"
EXACT, F1 = "exact_match", "token_f1"
"""Of validation rows, where a checkpoint answered some."""
NAMES = (LOSS, VALIDATION, GRADIENT, SPEED, EXACT, F1)
_MOST_BYTES = 16 << 20
"""Read at one look; the next goes on."""
_NEVER = 1e300
"""No measure comes near it."""
_LOSS_BUCKETS, _VALIDATION_POINTS, _SMALL_BUCKETS = 120, 60, 90
"""240 + 120 + 60 + 2 × 90 = 600 points in all."""
_TABLE_ROWS = 20
_SHOWN_CHECKPOINTS = 30
_MOST_BUILT = 64


@dataclass(frozen=True, slots=True)
class Fold:
    """The curves of one attempt, and how far its file was read."""

    read_to: int = 0
    curves: Mapping[str, Folded] | None = None

    def of(self, name: str) -> Folded:
        return (self.curves or {}).get(name, EMPTY)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was measured on validation rows at one step."""

    step: int
    validation_loss: float
    exact_match: float | None
    """As a share of 1; None where no rows were answered."""
    token_f1: float | None


@dataclass(frozen=True, slots=True)
class RunCurves:
    """What the charts of a run draw: at most 600 points in all."""

    version: str
    """Changes with every new point."""
    training: Sequence[Point]
    smooth: Sequence[Point]
    validation: Sequence[Point]
    gradient: Sequence[Point]
    """The highest of each stretch, so that no spike is lost."""
    speed: Sequence[Point]
    """The lowest of each stretch."""
    last_gradient: float | None
    last_speed: float | None
    sentence: str
    table: Sequence[Sequence[str]]
    """Step, training, smoothed, validation."""
    checkpoints: Sequence[Checkpoint]
    """Newest first."""


_built: OrderedDict[tuple[UUID, str], RunCurves] = OrderedDict()
_building = Lock()


def stored_fold(session: Session, machine: MachineView) -> Fold | None:
    """Where a run's machine was read to; None for machines without curves."""
    if machine.use is not Use.RUN:
        return None
    rows = session.exec(select(Curve).where(Curve.run_id == machine.subject_id, Curve.attempt == machine.attempt)).all()
    return Fold(max((row.read_to for row in rows), default=0), {row.name: _folded(row) for row in rows})


def read_on(volume: FileStore, machine: MachineView, known: Fold) -> Fold:
    """The fold with what the file has gained; no session open. A step done again has the file read from its start."""
    key = f"{machine.outputs_key}/{METRICS}"
    size = volume.size(key)
    if size is None or size == known.read_to:
        return known
    if size < known.read_to:
        known = Fold()
    values, read_to = _read_values(volume, key, known.read_to, _MOST_BYTES)
    if any(min(steps) <= known.of(name).last_step for name, steps in values.items()):
        known = Fold()
        values, read_to = _read_values(volume, key, 0, read_to)
    return Fold(read_to, {name: fold(known.of(name), values.get(name, {})) for name in NAMES})


def note_fold(session: Session, machine: MachineView, found: Fold) -> None:
    """Keep what was folded, unless another look has read further."""
    query = select(Curve).where(Curve.run_id == machine.subject_id, Curve.attempt == machine.attempt)
    rows = {row.name: row for row in session.exec(query)}
    for name, curve in (found.curves or {}).items():
        row = rows.get(name) or Curve(run_id=machine.subject_id, attempt=machine.attempt, name=name, buckets=[])
        if row.read_to == found.read_to and row.id is not None:
            continue
        row.width, row.read_to = curve.width, found.read_to
        row.buckets = _stored(curve)
        session.add(row)


def show_curves(session: Session, caller: Caller, run_id: UUID, seen: str = "") -> RunCurves | None:
    """The points of a run's charts; None where nothing is new since the version that the page has seen."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    read = select(Curve.attempt, Curve.name, Curve.read_to).where(Curve.run_id == run.id)
    version = ",".join(f"{attempt}{name[0]}{read_to}" for attempt, name, read_to in sorted(session.exec(read).all()))
    if version == seen:
        return None
    with _building:
        found = _built.get((run.id, version))
    if found is None:
        found = replace(_build(_attempts(session, run.id)), version=version)
        with _building:
            _built[run.id, version] = found
            while len(_built) > _MOST_BUILT:
                _built.popitem(last=False)
    return found


def first_step(session: Session, run_id: UUID, attempt: int) -> int | None:
    """With which step an attempt began to train."""
    query = select(Curve).where(Curve.run_id == run_id, Curve.attempt == attempt, Curve.name == LOSS)
    row = session.exec(query).one_or_none()
    return int(row.buckets[0][0]) if row and row.buckets else None


def _attempts(session: Session, run_id: UUID) -> Mapping[str, Folded]:
    rows = session.exec(select(Curve).where(Curve.run_id == run_id).order_by(col(Curve.attempt))).all()
    return {name: curves.joined([_folded(row) for row in rows if row.name == name]) for name in NAMES}


def _build(found: Mapping[str, Folded]) -> RunCurves:
    loss = curves.thinned(found[LOSS], _LOSS_BUCKETS)
    smooth = curves.smoothed(loss)
    validation = curves.lasts(curves.thinned(found[VALIDATION], _VALIDATION_POINTS))
    return RunCurves(
        version="",
        training=curves.extremes(loss),
        smooth=smooth,
        validation=validation,
        gradient=curves.highs(curves.thinned(found[GRADIENT], _SMALL_BUCKETS)),
        speed=curves.lows(curves.thinned(found[SPEED], _SMALL_BUCKETS)),
        last_gradient=_last(found[GRADIENT]),
        last_speed=_last(found[SPEED]),
        sentence=curves.say_trend(smooth, validation),
        table=_table(curves.lasts(loss), dict(smooth), validation),
        checkpoints=_checkpoints(found),
    )


def _checkpoints(found: Mapping[str, Folded]) -> list[Checkpoint]:
    exact, f1 = (dict(curves.lasts(found[name])) for name in (EXACT, F1))
    measured = curves.lasts(found[VALIDATION])[-_SHOWN_CHECKPOINTS:]
    return [Checkpoint(int(step), loss, exact.get(step), f1.get(step)) for step, loss in reversed(measured)]


def _last(curve: Folded) -> float | None:
    return curve.buckets[-1].last if curve.buckets else None


def _table(training: Sequence[Point], smooth: Mapping[float, float], validation: Sequence[Point]) -> list[list[str]]:
    every = max(1, -(-len(training) // _TABLE_ROWS))
    lines = []
    for step, value in [*training[:-1:every], *training[-1:]]:
        before = [loss for at, loss in validation if at <= step]
        lines.append([f"{step:,.0f}", f"{value:.3f}", f"{smooth[step]:.3f}", f"{before[-1]:.3f}" if before else "–"])
    return lines


def _read_values(volume: FileStore, key: str, start: int, length: int) -> tuple[dict[str, dict[int, float]], int]:
    """The values of the whole lines by curve and step, the later line winning; and where the last whole line ends."""
    with volume.open(key, start) as file:
        data = file.read(length)
    whole = data[: data.rfind(b"\n") + 1]
    values: dict[str, dict[int, float]] = {}
    for text in whole.splitlines():
        line = _line(text)
        for name in NAMES:
            if _is_number(value := line.get(name)):
                values.setdefault(name, {})[line["step"]] = value
    return values, start + len(whole)


def _line(text: bytes) -> dict[str, Any]:
    """A line of the trainer's; one that cannot be read is left out."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) and type(step := line.get("step")) is int and _is_number(step) else {}


def _is_number(value: object) -> TypeGuard[float]:
    """NaN, endless numbers and truths are none, and no database keeps them."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NEVER


def _stored(curve: Folded) -> list[list[float]]:
    """The last bucket carries its last step too: only so is a step done again told from a new one."""
    rows: list[list[float]] = [[bucket.step, bucket.low, bucket.high, bucket.last] for bucket in curve.buckets]
    if rows:
        rows[-1].append(curve.last_step)
    return rows


def _folded(row: Curve) -> Folded:
    buckets = tuple(Bucket(int(bucket[0]), *bucket[1:4]) for bucket in row.buckets)
    return Folded(row.width, buckets, int(row.buckets[-1][-1]) if buckets else -1)
