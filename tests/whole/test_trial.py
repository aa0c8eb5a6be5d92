"""A small training trial with real processes: measured, reported, and followed by the full run that it predicted."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.estimates import Source
from tensorant_app.domain.runs import LIFECYCLE, RunPurpose, RunState
from tensorant_app.services import demo, downloads, drafts, estimates, projects, runs, samples, trials
from tests.whole.installation import Installation, tiny_recipe
from trainer.contract import MANIFEST, METRICS, Base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BOUNDS = {"trial_rows": 64, "trial_validation_rows": 8, "trial_steps": 12}


def follow(run_id: UUID, ends: set[RunState], seconds: float = 300) -> Run:
    give_up_at = time.monotonic() + seconds
    while True:
        with reading() as session:
            run = session.get_one(Run, run_id)
        if run.state in ends:
            return run
        assert run.state not in LIFECYCLE.final, run.sentence
        assert time.monotonic() < give_up_at, f"It is still {run.state.value}."
        time.sleep(0.2)


def test_a_trial_measures_the_full_run_that_is_then_trained(
    installation: Installation, tiny_base: Base, tmp_path: Path
) -> None:
    caller = demo.owner()
    known = demo.prepare(caller, tiny_base, tiny_recipe(tmp_path, epochs=1), print)
    settings = tiny_recipe(tmp_path, epochs=3).settings
    with unit_of_work() as session:
        projects.pin_prompts(session, caller, known.project_id, "apple\nstone 7")
        ids = {"version_id": known.version_id, "baseline_id": known.baseline_id}
        trial_id = runs.save_draft(session, caller, name="Try", settings=settings, trial=BOUNDS, **ids)
    with unit_of_work() as session:
        runs.launch_run(session, caller, trial_id)

    trial = follow(trial_id, {RunState.COMPLETED})

    assert (trial.purpose, trial.evaluation_id) == (RunPurpose.TRIAL, None)
    give_up_at = time.monotonic() + 60
    while True:
        with reading() as session:
            view = trials.show_trial(session, caller, trial_id)
        assert view is not None
        if not view.refusal:
            break
        assert time.monotonic() < give_up_at, view.refusal
        time.sleep(0.2)
    report = view.report
    assert report is not None
    assert (report.completed, report.rows, report.steps, report.validation_rows) == (True, 64, 12, 8)
    assert report.prediction is not None
    assert set(report.missing) == {"memory_reserved_mb"}
    steps = installation.settings.volume_dir / f"runs/{trial_id}/out/1" / METRICS
    seconds = [line["seconds"] for line in map(json.loads, steps.read_text().splitlines()) if "loss" in line]
    assert len(seconds) == 12
    with unit_of_work() as session:
        download = downloads.adapter_zip(session, caller, trial_id)
    assert download.file_name == "try-diagnostic-adapter.zip"
    with zipfile.ZipFile(download.path) as archive:
        assert json.loads(archive.read(MANIFEST))["facts"]["purpose"] == "trial"

    with unit_of_work() as session:
        draft = drafts.create_full_draft(session, caller, trial_id)
    with reading() as session:
        estimate = estimates.estimate_run(session, caller, draft.id)
    assert estimate.source is Source.TRIAL
    assert estimate.plan.total_steps == report.full_run_steps == 39

    with unit_of_work() as session:
        runs.launch_run(session, caller, draft.id)
    full = follow(draft.id, {RunState.COMPLETED, RunState.NO_GAIN})

    with reading() as session:
        detail = runs.show_run(session, caller, full.id)
        scored = session.exec(select(Evaluation).where(Evaluation.run_id == full.id)).one()
        answers = [samples.show_samples(session, caller, key) for key in (trial_id, full.id)]
    assert (detail.view.step, detail.view.total_steps) == (39, 39)
    told = [[(one.prompt, [a.step for a in one.answers]) for one in found.prompts] for found in answers if found]
    assert told == [
        [("apple", [12]), ("stone 7", [12])],
        [("apple", [39, 26, 13]), ("stone 7", [39, 26, 13])],
    ]
    assert full.evaluation_id == scored.id
