"""What a project's overview shows, in words and in rows; plain functions from what the service says."""

from __future__ import annotations

from dataclasses import dataclass

from tensorant_app import routes
from tensorant_app.components.sparks import signed
from tensorant_app.pages.words import ago, exact, price_of
from tensorant_app.services.overview import Need, OverviewView, RunGlance, Thing


@dataclass(frozen=True)
class NeedRow:
    title: str
    sentence: str
    verb: str
    href: str
    thing: str
    is_urgent: bool


@dataclass(frozen=True)
class GlanceRow:
    name: str
    href: str
    state: str
    percent: int
    reason: str
    loss: str
    created: str
    created_exact: str
    has_verdict: bool
    passed: bool
    difference: str
    spent: str
    spent_word: str


@dataclass(frozen=True)
class DataFacts:
    """The newest frozen version; all empty where there is none."""

    version: str = ""
    href: str = ""
    train: str = ""
    validation: str = ""
    test: str = ""
    baseline: str = ""
    baseline_unit: str = ""


def need_of(project: str, need: Need) -> NeedRow:
    if need.thing is Thing.STRAY:
        return NeedRow(need.title, need.sentence, need.verb, routes.CONNECTIONS, need.thing.value, need.is_urgent)
    build = {Thing.RUN: routes.run, Thing.IMPORT: routes.import_, Thing.VERSION: routes.version}[need.thing]
    return NeedRow(need.title, need.sentence, need.verb, build(project, need.id), need.thing.value, need.is_urgent)


def glance_of(project: str, run: RunGlance) -> GlanceRow:
    percent = round(100 * run.step / run.total_steps) if run.total_steps else 0
    progress = f"Step {run.step:,} of {run.total_steps:,}" if run.total_steps else ""
    spent, word = price_of(run.spend)
    return GlanceRow(
        run.name,
        routes.run(project, run.id),
        run.state.value,
        percent,
        run.sentence or progress,
        f"{run.validation_loss:.3f}" if run.validation_loss is not None else "",
        ago(run.created_at),
        exact(run.created_at),
        run.passed is not None,
        bool(run.passed),
        signed(run.difference) if run.difference is not None else "",
        spent or "$0",
        word or "so far",
    )


def facts_of(project: str, found: OverviewView) -> DataFacts:
    if found.newest is None:
        return DataFacts()
    rows, scores = found.rows, found.baseline or {}
    return DataFacts(
        f"v{found.newest.number}",
        routes.version(project, found.newest.id),
        *(f"{rows.get(split, 0):,}" for split in ("train", "validation", "test")),
        _score(found),
        "exact" if scores else "",
    )


def _score(found: OverviewView) -> str:
    if found.baseline and "exact_match" in found.baseline:
        return f"{100 * found.baseline['exact_match']:.1f} %"
    return "Being scored" if found.is_scoring else "Not scored"


def step_of(found: OverviewView) -> int:
    if any(run.passed is not None for run in found.recent):
        return 5
    if found.live or found.recent:
        return 4
    if found.baseline:
        return 3
    return 2 if found.newest else 1
