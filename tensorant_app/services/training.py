"""What a run's job does with its machine: launch an attempt, follow it, take its adapter, judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.connections import LOCAL
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.gate import GateRule, Metric, Verdict, judge
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import BROKEN, LATE, MachineState, Use
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import Check, Finding
from tensorant_app.domain.readiness import Verdict as CheckVerdict
from tensorant_app.domain.runs import (
    CHECKPOINT_TIME,
    PAUSE_PATIENCE,
    RunFacts,
    RunPurpose,
    RunReason,
    RunState,
    Work,
    decide,
)
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.domain.trials import FINISHED, REPORT_TIME, TrialSettings
from tensorant_app.providers.base import FileStore, Storage
from tensorant_app.services import adapters, evaluations, machines, runs, slots, trials
from tensorant_app.services.adapters import TakenAdapter
from tensorant_app.services.connections import store, volume_for
from tensorant_app.services.machines import MachineView, Order
from tensorant_app.services.places import Place
from tensorant_app.services.plans import options_of
from trainer.contract import (
    AttemptKeys,
    Base,
    Split,
    TrainJob,
    TrialReport,
)

VOLUME_TRIES = 10
"""Failed looks in a row, about a quarter of an hour: so long a volume that cannot be read is waited for."""
FENCE = timedelta(minutes=10)
"""A new attempt may be asked so long after the lost one's release was, proved or not."""
_LEAST_TIME = timedelta(minutes=1)
"""Less than this is not worth another attempt."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """A run and its current machine, as its job found them."""

    id: UUID
    organization_id: UUID
    state: RunState
    settings: RunSettings
    placement: Placement
    refusals: int
    not_before: datetime | None
    verify_wanted_at: datetime | None
    pause_wanted_at: datetime | None
    gate: GateRule
    version_key: str
    base_repo_id: str
    base_revision: str
    attempt: int
    time_left: timedelta
    evaluates: bool
    evaluation_id: UUID | None
    evaluation_state: EvaluationState | None
    baseline_id: UUID
    machine: MachineView | None
    trial: TrialSettings | None = None
    merge_system: bool = False
    sample_prompts: tuple[str, ...] = ()

    @property
    def adapter_key(self) -> str:
        return AttemptKeys.of(Use.RUN.plural, str(self.id), self.attempt).adapter


def read_task(session: Session, run_id: UUID) -> RunTask:
    run = session.get_one(Run, run_id)
    project = session.get_one(Project, run.project_id)
    version = session.get_one(DatasetVersion, run.version_id)
    evaluation = session.get(Evaluation, run.evaluation_id) if run.evaluation_id else None
    return RunTask(
        id=run.id,
        organization_id=run.organization_id,
        state=run.state,
        settings=RunSettings.of(run.settings),
        placement=runs.placement_of(run),
        refusals=run.refusals,
        not_before=run.not_before,
        verify_wanted_at=run.verify_wanted_at,
        pause_wanted_at=run.pause_wanted_at,
        gate=rule_of(run.gate),
        version_key=f"versions/{version.content_sha256}",
        base_repo_id=project.base_repo_id,
        base_revision=project.base_revision,
        attempt=run.attempt,
        time_left=runs.time_left(run),
        evaluates=run.evaluates,
        evaluation_id=run.evaluation_id,
        evaluation_state=evaluation.state if evaluation else None,
        baseline_id=run.baseline_id,
        machine=machines.machine_of(session, Use.RUN, run.id, run.attempt),
        trial=TrialSettings.of(run.trial) if run.trial else None,
        merge_system=version.merge_system,
        sample_prompts=tuple(project.sample_prompts),
    )


def rule_of(stored: Mapping[str, Any]) -> GateRule:
    guards = {Metric(name): tolerance for name, tolerance in stored["guards"].items()}
    return GateRule(**{**stored, "metric": Metric(stored["metric"]), "guards": guards})


def is_fenced(machine: MachineView | None, now: datetime) -> bool:
    """Whether the attempt before may still write: its machine is neither proved gone nor long past its release.

    One of which nobody knows whether it exists could not be told to go: it is settled first.
    """
    if machine is None or machine.state in {MachineState.RELEASED, MachineState.ABSENT}:
        return False
    if machine.state is MachineState.ASKED:
        return True
    return machine.release_wanted_at is None or now - machine.release_wanted_at < FENCE


def order_machine(task: RunTask, place: Place, now: datetime) -> Order:
    """The next attempt's machine. The runtime that is left covers all attempts together."""
    return Order(
        task.organization_id,
        Use.RUN,
        task.id,
        task.attempt + 1,
        place.provider,
        place.gpu_type,
        now + task.time_left,
        connection_id=place.connection_id,
        gpu_count=task.placement.gpu_count,
        rate=place.rate,
        rate_limit=task.placement.rate_limit,
        data_center=place.data_center,
        options=place.options,
    )


def stage_version(volume: FileStore, version_key: str, splits: Sequence[Split]) -> None:
    """The splits that a machine may read, under the name of their content; test rows never go to a run."""
    for split in splits:
        key = f"{version_key}/{split.value}.parquet"
        if volume.size(key) != store().size(key):
            volume.put(key, store().fetch(key))


def stage_inputs(volume: FileStore, task: RunTask, order: Order, base: Base) -> None:
    """Everything that the machine will read, before anybody asks for it."""
    stage_version(volume, task.version_key, (Split.TRAIN, Split.VALIDATION))
    machines.stage(volume, order, job_of(task, order, base))


def job_of(task: RunTask, order: Order, base: Base) -> TrainJob:
    earlier = [AttemptKeys.of(Use.RUN.plural, str(task.id), n).outputs for n in range(order.attempt - 1, 0, -1)]
    is_alone = task.trial is not None or order.storage is Storage.POD
    return TrainJob(
        subject_id=str(task.id),
        attempt=order.attempt,
        machine=order.name,
        base=base,
        train=f"{task.version_key}/{Split.TRAIN.value}.parquet",
        validation=f"{task.version_key}/{Split.VALIDATION.value}.parquet",
        options=options_of(task.settings, merge_system=task.merge_system),
        resume_from=() if is_alone else tuple(earlier),
        sample_prompts=task.sample_prompts,
        trial=trials.limits_of(task.trial, task.settings) if task.trial else None,
    )


def note_findings(session: Session, run_id: UUID, findings: Sequence[Finding]) -> bool:
    """Keep what the checks found; whether the run may start. Refused safety ends it, any other returns it."""
    run = session.get_one(Run, run_id)
    run.findings = [asdict(finding) for finding in findings]
    reasons = [finding for finding in findings if finding.verdict is CheckVerdict.REFUSE]
    if run.state is not RunState.QUEUED or not reasons:
        return run.state is RunState.QUEUED
    sentence = " ".join(finding.sentence for finding in reasons)
    if any(finding.check is Check.SAFETY for finding in reasons):
        move = Move("refuse", RunReason.SAFETY, sentence)
    else:
        move = Move("return" if run.attempt == 0 else "hold", RunReason.CHECKS_FAILED, sentence)
    runs.advance(session, run, move, Cause.WORKER)
    return False


def note_asked(session: Session, task: RunTask, order: Order) -> bool:
    """The machine's intent and the step, in one transaction; False where the slot went to somebody else meanwhile."""
    run = session.get_one(Run, task.id)
    if run.state is not RunState.QUEUED or run.attempt != task.attempt:
        return False
    if not slots.has_turn(session, run.organization_id, run.id, is_last_word=True):
        return False
    run.attempt = order.attempt
    run.started_at = run.started_at or now_of(session)
    runs.advance(session, run, Move("launch"), Cause.WORKER)
    machines.ask_machine(session, order, "train" if task.trial is None else "trial")
    return True


def volume_of(session: Session, task: RunTask) -> FileStore:
    """Where its files lie."""
    if task.machine is None:
        return volume_for(session, task.organization_id, task.placement.provider or LOCAL)
    return volume_for(session, task.organization_id, task.machine.provider, task.machine.storage)


def next_look(task: RunTask) -> datetime:
    """When the run looks by itself, whatever its machine promises: at its deadline, and when patience ends."""
    assert task.machine is not None
    deadline = task.machine.deadline + (timedelta(0) if task.machine.work is Work.NONE else CHECKPOINT_TIME)
    pause_ends = task.pause_wanted_at + PAUSE_PATIENCE if task.pause_wanted_at else deadline
    return min(deadline, pause_ends)


def is_giving_up(task: RunTask, now: datetime) -> bool:
    """Whether what is known of its machine would end the attempt."""
    machine = task.machine
    if machine is None:
        return False
    is_gone = machine.state not in {MachineState.ASKED, MachineState.HELD}
    return is_gone or machine.reason in BROKEN or now >= machine.deadline


def waits_for_volume(task: RunTask, now: datetime, tries: int) -> bool:
    """Whether a run whose volume cannot be read goes no further for now: the word that decides may lie there.

    A finished run's machine costs while it waits, and the adapter can be verified later without one.
    """
    machine = task.machine
    if machine is None or now >= machine.deadline + LATE:
        return False
    if machine.work is Work.DONE:
        return tries < VOLUME_TRIES
    return machine.result is None and is_giving_up(task, now)


def take_adapter(task: RunTask, volume: FileStore) -> TakenAdapter | None:
    """The finished adapter that this very attempt's result names; None where it does not match its manifest."""
    machine = task.machine
    if machine is None or machine.result is None or machine.result.adapter != task.adapter_key:
        return None
    return adapters.take_from(volume, task.id, task.attempt, task.adapter_key)


def note_trouble(session: Session, run_id: UUID, sentence: str) -> None:
    """What lies on the volume cannot be read, or not be stored here, yet: it is tried again."""
    session.get_one(Run, run_id).sentence = f"{sentence} It is tried again."


def take_steps(
    session: Session,
    task: RunTask,
    adapter: TakenAdapter | None,
    report: TrialReport | None = None,
    trouble: str | None = None,
) -> None:
    """Every step that the machine's report calls for, one after the other; of a trial its report is kept.

    `trouble` says why a finished adapter could not be looked at, for so long that nobody waits any more.
    """
    run = session.get_one(Run, task.id)
    run.trial_report = asdict(report) if report else run.trial_report
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    was_done = task.machine is not None and task.machine.work is Work.DONE
    is_verified = adapter is not None if was_done else None
    while move := decide(_facts(run, machine, is_verified, trouble, now_of(session)), now_of(session)):
        if adapter is not None and move.verb == "ready":
            adapters.add_adapter(session, run, adapter)
        runs.advance(session, run, move, Cause.WORKER)


def score_adapter(session: Session, run_id: UUID) -> None:
    """Adapter ready: a trial is finished with it; of a full run its evaluation is asked for, once."""
    run = session.get_one(Run, run_id)
    if run.state is RunState.ADAPTER_READY and run.purpose is RunPurpose.TRIAL:
        runs.advance(session, run, Move("finish_trial", sentence=FINISHED), Cause.WORKER)
    elif run.state is RunState.ADAPTER_READY and run.evaluates and run.evaluation_id is None:
        run.evaluation_id = evaluations.create_for_run(session, run)
        runs.advance(session, run, Move("evaluate"), Cause.WORKER)
    elif run.state is RunState.ADAPTER_READY and run.evaluation_id is not None:
        asked = session.get_one(Evaluation, run.evaluation_id)
        # One that a member asked for; after one that failed the adapter simply stays ready.
        if asked.state is EvaluationState.COMPLETED or asked.state not in EVALUATION.final:
            runs.advance(session, run, Move("evaluate"), Cause.WORKER)


def judge_adapter(task: RunTask) -> Verdict:
    """The gate, from the stored answers of both; no session open."""
    assert task.evaluation_id is not None
    tuned = evaluations.scores_of(evaluations.read_answers(task.evaluation_id))
    base = evaluations.scores_of(evaluations.read_answers(task.baseline_id))
    return judge(tuned, base, task.gate)


def note_verdict(session: Session, task: RunTask, verdict: Verdict) -> None:
    run = session.get_one(Run, task.id)
    if run.state is not RunState.EVALUATING or run.evaluation_id is None:
        return
    evaluation = session.get_one(Evaluation, run.evaluation_id)
    evaluation.verdict = {**asdict(verdict), "passed": verdict.passed}
    verb = "pass" if verdict.passed else "no_gain"
    runs.advance(session, run, Move(verb, RunReason.GATE, verdict.reason), Cause.WORKER)


def note_unscored(session: Session, run_id: UUID) -> None:
    """Its evaluation failed or was cancelled: the adapter is safe."""
    run = session.get_one(Run, run_id)
    if run.state is RunState.EVALUATING and run.evaluation_id is not None:
        evaluation = session.get_one(Evaluation, run.evaluation_id)
        sentence = evaluation.sentence or f"Its evaluation was {evaluation.state.value}; the adapter is safe."
        runs.advance(session, run, Move("unscore", RunReason.EVALUATION_ENDED, sentence), Cause.WORKER)


def _facts(
    run: Run, machine: MachineView | None, is_verified: bool | None, trouble: str | None, now: datetime
) -> RunFacts:
    failure = machine.result.failure if machine and machine.result else None
    status = machine.status if machine else None
    return RunFacts(
        state=run.state,
        machine=machine.state if machine else None,
        machine_reason=machine.reason if machine else None,
        machine_sentence=machine.sentence if machine else None,
        work=machine.work if machine else Work.NONE,
        failure=f"{failure.message} {failure.advice}" if failure else None,
        losses=run.losses,
        deadline=_deadline(run, machine),
        has_time_left=machine is not None and machine.deadline - now > _LEAST_TIME,
        waits_for_capacity=machine is not None and runs.next_ask_of(run, machine, now) is not None,
        wants_pause=run.pause_wanted_at is not None,
        is_adapter_verified=is_verified,
        adapter_trouble=trouble,
        pause_wanted_at=run.pause_wanted_at,
        where=f" at step {status.step} of {status.total_steps}" if status and status.total_steps else "",
        is_trial=run.purpose is RunPurpose.TRIAL,
        is_pod_local=machine is not None and machine.storage is Storage.POD,
    )


def _deadline(run: Run, machine: MachineView | None) -> datetime:
    """When the run ends whatever its machine says; a trial's report is waited for a little longer."""
    if machine is None:
        return run.created_at
    return machine.deadline + (REPORT_TIME if run.purpose is RunPurpose.TRIAL else timedelta())
