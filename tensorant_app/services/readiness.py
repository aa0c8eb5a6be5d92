"""The readiness checks: what they need is read first, then they look at this computer with no transaction open."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.domain.errors import Refused, TensorantError
from tensorant_app.domain.estimates import Source
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.leakage import leak_sentences
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import (
    Check,
    Finding,
    adapter_bytes,
    gib,
    judge_time,
    memory_needed,
    passed,
    refused,
    space_needed,
    warned,
)
from tensorant_app.domain.safety_settings import SafetySettings
from tensorant_app.domain.tokens import too_long
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.domain.versions import VersionState
from tensorant_app.domain.wording import count
from tensorant_app.providers.base import Offer, Provider
from tensorant_app.services import estimates, safety
from tensorant_app.services.bases import BaseFacts, find_base, inspect_base
from tensorant_app.services.connections import provider_for
from tensorant_app.services.estimates import Estimate
from tensorant_app.services.plans import options_of
from tensorant_app.services.rented_checks import (
    RentedFacts,
    ask_anew,
    check_account,
    check_image,
    check_machine,
    check_space,
    read_rented,
)
from tensorant_app.services.versions import Report, report_of
from tensorant_app.settings import get_settings
from trainer.contract import Base, Plan, Split, write_file

_TRAINER_SECONDS = 60
_BYTES_ON_DISK = 2
"""Of each parameter in bfloat16."""
_FRESH = timedelta(minutes=15)
_asking = threading.Lock()
"""Two tabs do not start two interpreters at once."""

Inspect = Callable[[Base], BaseFacts]


@dataclass(frozen=True, slots=True)
class Subject:
    """A run as the checks see it."""

    settings: RunSettings
    base_repo_id: str
    base_revision: str
    version_id: UUID
    version_state: VersionState
    report: Report | None
    baseline_state: EvaluationState
    is_baseline_of_this: bool
    provider: Provider
    estimate: Estimate | None
    """Of the full run; None while its version is not frozen."""
    trial: TrialSettings | None = None
    """The bounds, where the run is a trial."""
    safety_settings: str = SafetySettings().fingerprint
    """Of the organization, now."""
    rented: RentedFacts | None = None
    """Of a run that rents its machine; None on this computer."""

    @property
    def limit(self) -> timedelta:
        if self.trial is not None:
            return timedelta(minutes=self.trial.trial_minutes)
        return timedelta(hours=self.settings.maximum_runtime_hours)


def read_subject(session: Session, run_id: UUID) -> Subject:
    run = session.get_one(Run, run_id)
    project = session.get_one(Project, run.project_id)
    version = session.get_one(DatasetVersion, run.version_id)
    baseline = session.get_one(Evaluation, run.baseline_id)
    trial = TrialSettings.of(run.trial) if run.trial else None
    settings, placement = RunSettings.of(run.settings), Placement.of(run.placement or {})
    return make_subject(session, project, version, baseline, settings, trial, placement)


def make_subject(
    session: Session,
    project: Project,
    version: DatasetVersion,
    baseline: Evaluation,
    settings: RunSettings,
    trial: TrialSettings | None,
    placement: Placement,
) -> Subject:
    is_frozen = version.state is VersionState.FROZEN
    return Subject(
        settings,
        project.base_repo_id,
        project.base_revision,
        version.id,
        version.state,
        report_of(session, version.id) if is_frozen else None,
        baseline.state,
        (baseline.version_id, baseline.base_revision) == (version.id, project.base_revision),
        provider_for(session, project.organization_id),
        estimates.estimate(session, project, version, settings, placement) if is_frozen else None,
        trial,
        safety.settings_of(session, project.organization_id).fingerprint,
        read_rented(session, project, version, settings.method, placement),
    )


def check_run(subject: Subject, now: datetime) -> list[Finding]:
    """Every finding, in the order of the list; a check that another's failure makes pointless is left out."""
    if subject.rented is not None:
        return check_all_but_trainer(replace(subject, rented=ask_anew(subject.rented)))
    return [*check_all_but_trainer(subject), check_trainer(now)]


def check_all_but_trainer(subject: Subject, inspect: Inspect = inspect_base) -> list[Finding]:
    """The same without the one check that may take a minute; a rented machine has none such."""
    base, findings = _check_base(subject, inspect)
    findings += _check_here(subject, base) if subject.rented is None else _check_rented(subject, subject.rented, base)
    if base is not None:
        findings.append(_check_plan_fit(subject.settings, base))
    findings += _check_data(subject)
    return [*findings, _check_baseline(subject)]


def _check_here(subject: Subject, base: BaseFacts | None) -> list[Finding]:
    findings = [*_check_compute(subject, base), _check_storage()]
    if base is not None:
        findings.append(_check_space(subject, base))
    return findings


def _check_rented(subject: Subject, facts: RentedFacts, base: BaseFacts | None) -> list[Finding]:
    findings = check_account(facts)
    if base is not None:
        checkpoints = _checkpoints(subject)
        needed = space_needed(adapter_bytes(base.linear_sizes, subject.settings.rank), checkpoints)
        findings.append(check_space(facts, needed, checkpoints, base.parameters * _BYTES_ON_DISK))
    findings += check_machine(facts, subject.limit)
    return [*findings, check_image()]


def _check_base(subject: Subject, inspect: Inspect) -> tuple[BaseFacts | None, list[Finding]]:
    try:
        base = inspect(find_base(subject.base_repo_id, subject.base_revision))
    except Refused as error:
        return None, [refused(Check.BASE, f"{error.message} {' '.join(error.reasons)}")]
    except TensorantError as error:
        return None, [refused(Check.BASE, error.message)]
    return base, [
        passed(
            Check.BASE, f"{subject.base_repo_id} is here at revision {subject.base_revision[:12]}, every file verified."
        )
    ]


def _check_compute(subject: Subject, base: BaseFacts | None) -> list[Finding]:
    try:
        offers = subject.provider.offers()
    except TensorantError as error:
        return [refused(Check.COMPUTE, error.message)]
    if not offers:
        return [refused(Check.COMPUTE, "The provider offers no machine now. Try again later.")]
    findings = [passed(Check.COMPUTE, f"{offers[0].gpu_type} can start a machine.")]
    return findings if base is None else [*findings, _check_memory(subject.settings, base, offers[0])]


def _check_memory(settings: RunSettings, base: BaseFacts, offer: Offer) -> Finding:
    needed = memory_needed(base.parameters, settings.method)
    sentence = f"Training needs about {gib(needed)} of memory; {gib(offer.memory_bytes)} are free."
    if needed > offer.memory_bytes:
        return refused(Check.MEMORY, f"{sentence} Close other programs, or take a smaller base model or QLoRA.")
    return passed(Check.MEMORY, sentence)


def _check_storage() -> Finding:
    folder = get_settings().volume_dir
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe-") as probe:
            probe.write(b"probe")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return refused(Check.STORAGE, f"The folder {folder} cannot be written: {error.strerror}. Make it writable.")
    return passed(Check.STORAGE, f"The folder {folder} can be written.")


def _checkpoints(subject: Subject) -> int:
    """How many the run will write, the last step's among them; a trial writes none but its adapter."""
    settings, steps = subject.settings, subject.estimate.plan.total_steps if subject.estimate else 1
    if subject.trial is not None:
        return 0
    if settings.checkpoint_unit == "epochs":
        return -(-settings.epochs // settings.checkpoint_every_epochs)
    return max(1, -(-steps // settings.checkpoint_every_steps))


def _check_space(subject: Subject, base: BaseFacts) -> Finding:
    checkpoints = _checkpoints(subject)
    needed = space_needed(adapter_bytes(base.linear_sizes, subject.settings.rank), checkpoints)
    free = shutil.disk_usage(get_settings().volume_dir).free
    sentence = (
        f"{count(checkpoints, 'checkpoint')} and the adapter need about {gib(needed)} of disk; {gib(free)} are free."
    )
    if needed > free:
        return refused(Check.SPACE, f"{sentence} Free some space, lower the rank or save fewer checkpoints.")
    return passed(Check.SPACE, sentence)


def _check_plan_fit(settings: RunSettings, base: BaseFacts) -> Finding:
    if settings.context_length > base.context_length:
        sentence = f"The context length {settings.context_length:,} is more than the model's {base.context_length:,}."
        return refused(Check.BASE_FIT, f"{sentence} Lower it.")
    return passed(
        Check.BASE_FIT, f"{base.architecture} with safetensors weights and a chat template; no code of its own."
    )


def _check_data(subject: Subject) -> list[Finding]:
    if subject.report is None:
        return [refused(Check.VERSION, f"The dataset version is {subject.version_state.value}. Freeze it first.")]
    report = subject.report
    empty = [split.value for split in (Split.TRAIN, Split.VALIDATION, Split.TEST) if not report.rows.get(split.value)]
    if empty:
        return [refused(Check.VERSION, f"The version has no rows for {' and '.join(empty)}. Split it differently.")]
    if report.images:
        sentence = f"The version has {report.images:,} images, and training on images comes later."
        return [refused(Check.VERSION, f"{sentence} Choose a version without images, and a text model.")]
    counts = ", ".join(f"{count:,} {split}" for split, count in report.rows.items())
    leaks = leak_sentences(report.repeats)
    sentence = " ".join([f"The version is frozen: {counts}.", *leaks])
    return [
        warned(Check.VERSION, f"{sentence} Scores on such rows measure memory.")
        if leaks
        else passed(Check.VERSION, sentence),
        _check_rows(subject.settings, report),
        _check_safety(report, subject.safety_settings),
        _check_plan(subject.settings, report, subject.rented.placement.gpu_count if subject.rented else 1),
        *_check_time(subject),
    ]


def _check_rows(settings: RunSettings, report: Report) -> Finding:
    if report.mask.longest > settings.context_length:
        sentence = too_long(report.mask.longest_rows, settings.context_length) or (
            f"The longest row has {report.mask.longest:,} tokens and the context length is {settings.context_length:,}."
        )
        return refused(Check.ROWS, f"{sentence} Raise the context length, or leave the long rows out of the version.")
    trained = sum(report.mask.trained_tokens.values())
    return passed(
        Check.ROWS,
        f"All {report.mask.rows:,} rows render; {trained:,} tokens are trained on, the longest row has {report.mask.longest:,}.",
    )


def _check_safety(report: Report, settings: str) -> Finding:
    """Rows count as looked through only where the whole check was made, by the settings of now."""
    checked = report.safety_check
    if checked.has_failed:
        return refused(
            Check.SAFETY_LOOK, f"The safety check is not done. {checked.sentence} Look through the version again."
        )
    if checked.settings != settings:
        sentence = "The safety settings have changed since the version was looked through. Look through it again."
        return refused(Check.SAFETY_LOOK, sentence)
    if not checked.rows:
        return passed(Check.SAFETY, "The safety check refuses no row.")
    rows = sorted({finding["row"] for finding in report.safety})
    shown = ", ".join(str(row) for row in rows[:20]) + (" …" if checked.rows > 20 else "")
    are = "1 row is" if checked.rows == 1 else f"{checked.rows:,} rows are"
    return refused(Check.SAFETY, f"{are} refused by the safety check: {shown}. Mend them and freeze again.")


def _check_plan(settings: RunSettings, report: Report, gpus: int) -> Finding:
    sequences = report.mask.sequences.get(Split.TRAIN.value) or report.rows[Split.TRAIN.value]
    plan = Plan.of(sequences, options_of(settings), gpus)
    if plan.total_steps < 1:
        return refused(Check.PLAN, "There is nothing to train: the plan has no optimizer step.")
    sentence = f"{plan.total_steps:,} optimizer steps, {plan.steps_per_epoch:,} an epoch, {plan.warmup_steps:,} of them warm-up."
    if plan.warmup_steps >= plan.total_steps:
        return warned(Check.PLAN, f"{sentence} The learning rate never reaches its value; lower the warm-up ratio.")
    return passed(Check.PLAN, sentence)


def _check_time(subject: Subject) -> list[Finding]:
    """Of a trial the share of the full run's time that its steps take."""
    found = subject.estimate
    if found is None or found.shortest is None or found.longest is None or not found.plan.total_steps:
        return []
    share, way = 1.0, "allow a longer maximum runtime, or train fewer epochs"
    if subject.trial is not None:
        share = subject.trial.trial_steps / found.plan.total_steps
        way = "allow more minutes, or fewer steps"
    is_measured = found.source is not Source.FORMULA
    low, high = found.shortest * share, found.longest * share
    return [judge_time(low, high, subject.limit, is_measured=is_measured, words=found.source_words, way=way)]


def _check_baseline(subject: Subject) -> Finding:
    if subject.baseline_state is not EvaluationState.COMPLETED or not subject.is_baseline_of_this:
        return refused(Check.BASELINE, "The run needs a completed baseline of this version and base revision.")
    return passed(Check.BASELINE, "The baseline of this version and base revision is completed.")


def check_trainer(now: datetime) -> Finding:
    """The trainer's interpreter trains one step on a tiny model; believed for 15 minutes."""
    python = get_settings().trainer_python
    remembered = get_settings().data_dir / "trainer-check.json"
    with _asking:
        found = _recall(remembered, python, now)
        if found is None:
            found = _ask_trainer(python)
            with suppress(OSError):  # A full disk is another check's to refuse.
                write_file(remembered, json.dumps({"python": str(python), "at": now.isoformat(), "found": found}))
    if not found.get("ok"):
        sentence = f"The trainer cannot train with {python}: {str(found.get('error')).rstrip('.')}."
        return refused(Check.TRAINER, f"{sentence} Mend that, or name another Python in TENSORANT_TRAINER_PYTHON.")
    return passed(
        Check.TRAINER,
        f"The trainer made a step on a tiny model ({found['device']}, torch {found['versions']['torch']}).",
    )


def _recall(path: Path, python: Path, now: datetime) -> dict[str, Any] | None:
    try:
        stored = json.loads(path.read_text())
        is_fresh = timedelta(0) <= now - datetime.fromisoformat(stored["at"]) < _FRESH
        return stored["found"] if is_fresh and stored["python"] == str(python) and stored["found"].get("ok") else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ask_trainer(python: Path) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [str(python), "-m", "trainer", "check"],
            capture_output=True,
            text=True,
            timeout=_TRAINER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"ok": False, "error": f"it did not answer within {_TRAINER_SECONDS} seconds"}
    except OSError as error:
        return {"ok": False, "error": str(error)}
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        answer = None
    if isinstance(answer, dict):
        return answer
    said = done.stderr.strip().splitlines()
    return {"ok": False, "error": said[-1] if said else f"it ended with code {done.returncode} and no answer"}
