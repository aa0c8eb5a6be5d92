"""One number shown everywhere: the trainer's, the command line's and the console's counts of one version agree."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobs import broker
from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.readiness import Check
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.domain.splits import Counts
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.services import estimates, file_checks, plans, readiness, trial_words, trials, versions
from tensorant_app.services.connections import store
from tests import data, factories
from tests.tiny_base import CHATML, make_tiny_base
from trainer.contract import Plan, TrialReport, dump, load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

THINKING = CHATML.replace(
    "{{ message['content'] }}",
    "{% if message['role'] == 'assistant' and not loop.last %}{{ message['content'].split('</think>')[-1] }}"
    "{% else %}{{ message['content'] }}{% endif %}",
)
"""Forgets the thoughts of earlier replies, as Qwen3's does: then each reply is a sequence of its own."""
SETTINGS = RunSettings(epochs=2, micro_batch_size=4, accumulation=2, context_length=512)


def rows(count: int) -> list[dict[str, Any]]:
    """Two questions each, with a thought before the answer."""
    return [
        {
            "messages": [
                {"role": "user", "content": f"first question {n}"},
                {"role": "assistant", "content": f"<think>about {n}</think>yes"},
                {"role": "user", "content": "and the second"},
                {"role": "assistant", "content": f"<think>again {n}</think>no"},
            ]
        }
        for n in range(count)
    ]


@pytest.mark.parametrize("template", [CHATML, THINKING], ids=["one sequence a row", "one for each reply"])
def test_steps_are_the_same_in_plan_trial_estimate_check_and_trainer(
    sqlite_database: str, tmp_path: Path, template: str
) -> None:
    broker.load_actors()
    caller = factories.make_caller()
    base = make_tiny_base(tmp_path / "base", template=template)
    dataset_id = data.make_dataset(caller, base)
    path = data.write_lines(tmp_path / "rows.jsonl", rows(40))
    version_id = data.draft(caller, data.read_import(caller, dataset_id, path), shares=Counts(validation=4, test=6))
    data.check(caller, version_id)
    data.freeze(caller, version_id)
    run_id = make_trial(caller, version_id)

    with reading() as session:
        run = session.get_one(Run, run_id)
        estimate = estimates.estimate_run(session, caller, run_id)
        subject = readiness.read_subject(session, run_id)
        key = versions.frozen_key(session.get_one(DatasetVersion, version_id).content_sha256 or "")
    train = store().fetch(f"{key}/train.parquet")
    limits = trials.limits_of(TrialSettings(trial_rows=16, trial_steps=7), SETTINGS)
    options = plans.options_of(SETTINGS)
    told = file_checks.try_training(
        jsonl_of(train, tmp_path), Path(base.folder), None, json.dumps(asdict(options)), asdict(limits)
    )
    report = load(TrialReport, json.dumps(told))
    with unit_of_work() as session:
        stored = session.get_one(Run, run_id)
        stored.trial_report, stored.state, stored.attempt = json.loads(dump(report)), RunState.COMPLETED, 1
    factories.ask_machine(caller, run_id, datetime.now(UTC))
    with reading() as session:
        view = trials.show_trial(session, caller, run_id)
        measured = estimates.estimate_run(session, caller, run_id)

    steps = estimate.plan.total_steps
    sequences = 30 if template == CHATML else 60
    assert steps == Plan.of(sequences, options).total_steps
    planned = {"rows": sequences, "micro_batch": 4, "grad_accum": 2, "epochs": 2}
    assert plans.report(planned, {}).total_steps == steps, "`tensorant plan`"
    assert report.full_run_steps == steps, "`tensorant trial`"
    (check,) = [one for one in readiness.check_all_but_trainer(subject) if one.check is Check.PLAN]
    assert check.sentence.startswith(f"{steps:,} optimizer steps"), "the readiness check"
    assert view is not None
    assert any(line.under.startswith(f"{steps:,} optimizer steps") for line in trial_words.lines_of(view)), "the page"
    assert report.prediction is not None
    assert measured.shortest is not None
    assert measured.shortest.total_seconds() == pytest.approx(report.prediction.low, abs=1e-5)
    assert load(TrialReport, json.dumps(stored.trial_report)) == report
    assert run.settings["epochs"] == 2


def make_trial(caller: Any, version_id: UUID) -> UUID:
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, version_id)
        project = session.get_one(Project, session.get_one(Dataset, version.dataset_id).project_id)
        baseline = factories.make_baseline(session, project, version)
        ids = {"project_id": project.id, "version_id": version.id, "baseline_id": baseline.id}
    trial = {"purpose": RunPurpose.TRIAL, "trial": TrialSettings().as_values(), "settings": SETTINGS.as_values()}
    return factories.make_run(caller, **ids, **trial)


def jsonl_of(parquet: Path, folder: Path) -> Path:
    """The very rows that a machine reads, as the command of files takes them."""
    import pyarrow.parquet as pq

    texts = pq.read_table(parquet, columns=["example"]).column(0).to_pylist()
    return data.write_lines(folder / "train.jsonl", texts)
