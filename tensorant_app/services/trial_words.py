"""The training trial report in words: the same lines on a run's page and in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorant_app.domain.durations import say_seconds
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.services.trials import TrialView
from trainer.contract import TrialReport

_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One measurement: its name, what was found, and how to read it."""

    label: str
    value: str
    under: str = ""


def lines_of(view: TrialView) -> list[TrialLine]:
    """Every measurement of the report; a dash where one is missing, and `missing_of` says why."""
    if view.report is None:
        return []
    return [*_full_run(view, view.report), *_steps(view.bounds, view.report), *_memory(view.report)]


def missing_of(view: TrialView) -> list[str]:
    """Why a measurement is not there, a sentence each."""
    if view.report is None:
        return [view.missing]
    price = [] if view.price is not None or view.report.prediction is None else [_NO_PRICE]
    return [*view.report.missing.values(), *price]


_NO_PRICE = "The price of the machine is not known, so the cost was not computed."


def _full_run(view: TrialView, report: TrialReport) -> Iterator[TrialLine]:
    found, steps = report.prediction, report.full_run_steps
    time = _range(say_seconds(found.low), say_seconds(found.high)) if found else _UNKNOWN
    plan = f"{steps:,} optimizer steps" if steps else ""
    yield TrialLine("Full run, time", time, ", ".join(filter(None, (plan, "8 of 10 such runs" if found else ""))))
    cost = _range(str(view.cost[0]), str(view.cost[1])) if view.cost else _UNKNOWN
    yield TrialLine("Full run, cost", cost, f"at {view.price.per_hour}/h" if view.price else "")


def _steps(bounds: TrialSettings, report: TrialReport) -> Iterator[TrialLine]:
    seconds = report.step_seconds
    rows = f"{report.rows:,} training rows, the longest first"
    yield TrialLine("Steps measured", f"{report.steps} of {bounds.trial_steps}", rows)
    if report.median_step_seconds is None or not seconds:
        yield TrialLine("Optimizer step", _UNKNOWN)
    else:
        spread = f"median; the first took {_seconds(seconds[0])}, the slowest {_seconds(max(seconds))}"
        yield TrialLine("Optimizer step", _seconds(report.median_step_seconds), spread)
    if report.losses:
        first, last = report.losses[0], report.losses[-1]
        yield TrialLine("Training loss", f"{first:.3f} → {last:.3f}" if len(report.losses) > 1 else f"{first:.3f}")
    loss = f"{report.validation_loss:.3f}" if report.validation_loss is not None else _UNKNOWN
    yield TrialLine("Validation loss", loss, f"{report.validation_rows:,} validation rows")
    if report.prepare_seconds is not None:
        yield TrialLine("Preparing", _seconds(report.prepare_seconds), "rows, model and adapter; not in the prediction")


def _memory(report: TrialReport) -> Iterator[TrialLine]:
    for label, used in (("allocated", report.memory_allocated_mb), ("reserved", report.memory_reserved_mb)):
        available = report.memory_available_mb
        share = f"{used / available:.0%} of {available:,} MB" if used is not None and available else ""
        yield TrialLine(f"Peak memory {label}", _UNKNOWN if used is None else f"{used:,} MB", share)


def memory_percent(view: TrialView) -> int:
    """How full the memory was at its peak; 0 where it was not measured."""
    report = view.report
    used = (report.memory_reserved_mb or report.memory_allocated_mb) if report else None
    return (
        min(round(100 * used / report.memory_available_mb), 100)
        if report and used and report.memory_available_mb
        else 0
    )


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} – {high}"


def _seconds(value: float) -> str:
    return say_seconds(value) if value >= 60 else f"{value:.3g} s"
