"""What a run's page shows of a run, in words and in rows; plain functions from what the services say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorant_app import routes
from tensorant_app.components.badges import RUN
from tensorant_app.components.checks import CheckLine
from tensorant_app.components.steppers import Phase
from tensorant_app.domain.durations import PhaseTime, say_seconds
from tensorant_app.domain.gate import Metric
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import LIFECYCLE, RunPurpose, RunState
from tensorant_app.domain.steps import Cause
from tensorant_app.pages import waiting_words
from tensorant_app.pages.words import exact
from tensorant_app.services.logs import Happening
from tensorant_app.services.run_details import RunDetails, SettingView
from tensorant_app.services.waiting import WaitsFor

_WORKS = frozenset(
    {
        RunState.QUEUED,
        RunState.LAUNCHING,
        RunState.PREPARING,
        RunState.TRAINING,
        RunState.PACKAGING,
        RunState.EVALUATING,
    }
)
_CAUSES = {Cause.MEMBER: "by a member", Cause.OPERATOR: "by the operator", Cause.WORKER: "by Tensorant"}


@dataclass(frozen=True)
class Head:
    """The run's name, where it stands, and what its buttons lead to."""

    id: str = ""
    short_id: str = ""
    name: str = ""
    state: str = ""
    percent: int = 0
    said: str = ""
    """Read aloud when it changes, and the tab's title."""
    line: str = ""
    """Beside the badge: where it stands, or why."""
    started: str = ""
    started_exact: str = ""
    machine: str = ""
    is_overdue: bool = False
    is_live: bool = False
    is_rented: bool = False
    may_cancel: bool = False
    cancel_lead: str = ""
    has_adapter: bool = False
    adapter: str = ""
    job_files: str = ""
    scorecard: str = ""
    summary: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Numbers:
    """What moves, as texts; empty where there is nothing to say."""

    remaining: str = ""
    elapsed: str = ""
    maximum: str = ""
    used: str = ""
    step: str = ""
    total: str = ""
    epoch: str = ""
    epochs: str = ""
    loss: str = ""
    validation: str = ""
    speed: str = ""
    rows: str = ""
    memory: str = ""
    exact: str = ""
    baseline_exact: str = ""
    baseline_likely: str = ""
    """What the gate takes where it is more than the exact matches."""


@dataclass(frozen=True)
class Origin:
    """What the run was made from, with the addresses of it."""

    version: str = ""
    version_href: str = ""
    baseline: str = ""
    baseline_href: str = ""
    base: str = ""
    revision: str = ""
    method: str = ""
    gate: str = ""
    created_by: str = ""


@dataclass(frozen=True)
class Trouble:
    """What asks for a person; `kind` is empty while nothing does."""

    kind: str = ""
    what: str = ""
    story: str = ""
    lost: str = ""
    """What is kept, and what it cost."""


@dataclass(frozen=True)
class SettingRow:
    label: str
    value: str
    default: str
    is_changed: bool


@dataclass(frozen=True)
class EventRow:
    time: str
    exact: str
    subject: str
    what: str
    cause: str
    sentence: str


def head_of(run: RunDetails) -> Head:
    word = RUN[run.state].word
    percent = run.progress.percent
    scorecard = routes.scorecard(run.project_id, run.evaluation_id) if run.evaluation_id else ""
    summary, detail = _phone_line(run.phases)
    return Head(
        id=str(run.id),
        short_id=str(run.id)[:13],
        name=run.name,
        state=run.state.value,
        percent=percent,
        said=f"▶ {percent} % · {run.name}" if run.state is RunState.TRAINING else f"{word} · {run.name}",
        line=_line(run),
        started=f"Started {run.started_at:%H:%M} UTC" if run.started_at else "",
        started_exact=exact(run.started_at),
        machine=run.machine.state.value if run.machine and not _is_quiet(run) else "",
        is_overdue=run.machine is not None and run.machine.is_overdue,
        is_rented=run.is_rented,
        is_live=run.state in _WORKS,
        may_cancel="cancel" in _verbs(run.state) or run.state is RunState.EVALUATING,
        cancel_lead=_cancel_lead(run),
        has_adapter=run.has_adapter,
        adapter=routes.adapter_archive(run.id) if run.has_adapter else "",
        job_files=routes.job_files(run.id),
        scorecard=scorecard,
        summary=summary,
        detail=detail,
    )


def numbers_of(run: RunDetails) -> Numbers:
    now = run.progress
    counts_rows = now.total and not (run.state is RunState.TRAINING or run.is_final)
    return Numbers(
        remaining=_remaining(now.remaining),
        elapsed=say_seconds(now.elapsed) if now.elapsed is not None else "",
        maximum=say_seconds(run.maximum_runtime.total_seconds()),
        used=say_seconds(run.seconds_used) if run.seconds_used else "",
        step=f"{now.step:,}" if now.total_steps else "",
        total=f"of {now.total_steps:,}" if now.total_steps else "",
        epoch=f"{now.epoch:.2f}" if now.total_steps else "",
        epochs=next((f"of {s.value}" for s in run.settings if s.label == "Epochs"), ""),
        loss=f"{now.loss:.3f}" if now.loss is not None else "",
        validation=f"{now.validation_loss:.3f}" if now.validation_loss is not None else "",
        speed=f"{now.tokens_per_second:,.0f}" if now.tokens_per_second else "",
        rows=f"{now.done:,} of {now.total:,}" if counts_rows else "",
        memory=f"{now.peak_rss_mb / 1024:.1f}" if now.peak_rss_mb else "",
        exact=_percent(run.scores.get("exact_match")),
        baseline_exact=_percent(run.origin.baseline_scores.get("exact_match")),
        baseline_likely=_percent(run.origin.baseline_scores.get("likelihood")),
    )


def _remaining(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"about {say_seconds(seconds)}" if seconds >= 1 else "any moment now"


def phases_of(run: RunDetails) -> list[Phase]:
    return [_phase(phase, run) for phase in run.phases]


def origin_of(run: RunDetails) -> Origin:
    origin = run.origin
    by_label = {setting.label: setting.value for setting in run.settings}
    score = _percent(origin.baseline_scores.get("exact_match"))
    return Origin(
        version=f"{origin.dataset} v{origin.version}",
        version_href=routes.version(run.project_id, origin.version_id),
        baseline=f"{score} exact" if score else "Baseline",
        baseline_href=routes.scorecard(run.project_id, origin.baseline_id),
        base=origin.base_repo_id,
        revision=origin.base_revision[:12],
        method=f"{by_label['Training method']} r{by_label['LoRA rank']}, α {by_label['LoRA alpha']}",
        gate=say_rule(origin.rule["metric"], origin.rule["margin"], origin.rule["min_rows"]),
        created_by=origin.created_by,
    )


def settings_of(settings: Sequence[SettingView]) -> list[SettingRow]:
    return [SettingRow(one.label, one.value, one.default, one.is_changed) for one in settings]


def events_of(found: Sequence[Happening]) -> list[EventRow]:
    return [
        EventRow(
            time=f"{event.at:%H:%M:%S}",
            exact=exact(event.at),
            subject="Run" if event.subject == "run" else event.subject,
            what=event.state.replace("_", " ").capitalize(),
            cause=_CAUSES[event.cause],
            sentence=event.sentence or "",
        )
        for event in found
    ]


def findings_of(run: RunDetails) -> list[CheckLine]:
    """What the checks found last: only what refused or warned."""
    return [CheckLine(one["verdict"], one["sentence"]) for one in run.findings if one["verdict"] != "pass"]


def machine_trouble_of(run: RunDetails) -> Trouble:
    """A machine that nobody has proved gone or there: it may cost money. The panel of a run that waits for it says more."""
    if _waits_for_lost(run):
        return Trouble()
    if run.machine is not None and run.machine.state is MachineState.RELEASE_FAILED:
        story = "Tensorant keeps asking for its release until it is proved gone. Its slot stays taken until then."
        return Trouble("release_failed", "The machine's release is not confirmed.", story, run.machine.sentence or "")
    if run.machine is not None and run.machine.is_overdue and run.machine.was_heard:
        story = "Its trainer was heard and goes on. It is looked for until the provider lists it, and never asked for twice."
        return Trouble("checking", "The provider does not list the machine.", story)
    if run.machine is not None and run.machine.is_overdue:
        story = "The provider's answer is late or lost. A machine of this name is looked for; none is asked for twice."
        return Trouble("checking", "The launch is being checked.", story)
    return Trouble()


def trouble_of(run: RunDetails) -> Trouble:
    """Why the run asks for a person."""
    kept = _kept(run)
    said = run.sentence or ""
    match run.state:
        case RunState.DRAFT if run.findings and said:
            return Trouble("draft", "The launch was returned by the checks.", "Nothing was started and nothing spent.")
        case RunState.QUEUED if _waits_for_lost(run) and run.waiting is not None:
            what = "The next attempt waits for the lost machine."
            return Trouble("lost_machine", what, waiting_words.story_of(run.waiting), kept)
        case RunState.NEEDS_RECOVERY:
            return Trouble("needs_recovery", "Recover this run", said, kept)
        case RunState.PAUSED:
            return Trouble("paused", "The run is paused.", said or "Its last checkpoint is verified.", kept)
        case RunState.FAILED if run.failure is not None:
            return Trouble("failed", run.failure.message, run.failure.advice, kept)
        case RunState.FAILED:
            return Trouble("failed", "The run failed.", said, kept)
        case RunState.REFUSED:
            return Trouble("failed", "The safety check refused the run.", said, "No machine was asked for.")
        case RunState.CANCELLED:
            return Trouble("cancelled", "The run was cancelled.", "", kept)
        case RunState.ADAPTER_READY if run.evaluation_id is not None:
            return Trouble("unscored", "The adapter is safe, and it has no score.", said, kept)
    return Trouble()


def _waits_for_lost(run: RunDetails) -> bool:
    is_in_doubt = run.machine is not None and run.machine.state is MachineState.ASKED
    return run.waiting is not None and run.waiting.what is WaitsFor.LOST_MACHINE and not is_in_doubt


def say_rule(metric: str, margin: float, min_rows: int) -> str:
    name = "Exact match" if metric == Metric.EXACT else "Token F1"
    return (
        f"{name}: the lower 95 % bound of the gain must lie above {100 * margin:g} points, on {min_rows} rows or more"
    )


def _kept(run: RunDetails) -> str:
    if run.purpose is RunPurpose.TRIAL and run.attempt:
        return "Its report and its logs are kept; there is nothing to recover."
    if run.has_adapter:
        return "The adapter and the logs are kept."
    at = f" up to step {run.progress.step:,}" if run.progress.step else ""
    if run.machine is not None and run.machine.disk_ends:
        return "Its files lie on the Pod's own disk, which costs until the Pod is deleted. Curves and logs are kept."
    return f"Checkpoints{at} and logs are kept." if run.attempt else "No machine was asked for, and nothing was spent."


def _line(run: RunDetails) -> str:
    now = run.progress
    if run.state is RunState.TRAINING and now.total_steps:
        return f"Step {now.step:,} of {now.total_steps:,}"
    if run.state in {RunState.PREPARING, RunState.EVALUATING} and now.total:
        return f"{now.done:,} of {now.total:,} rows"
    if run.waiting is not None:
        return waiting_words.line_of(run, run.waiting)
    return run.sentence or ""


def _cancel_lead(run: RunDetails) -> str:
    if run.state is RunState.EVALUATING:
        return "Only the scoring stops. The adapter is safe and stays ready."
    at = f" at step {run.progress.step:,} of {run.progress.total_steps:,}" if run.progress.total_steps else ""
    if run.machine is not None and run.machine.disk_ends:
        return f"It stops at once{at}. The Pod is deleted with its disk: what was not fetched from it is lost."
    return (
        f"It stops at once{at}. Checkpoints and logs are kept, the machine is given back. It cannot be taken up again."
    )


def _is_quiet(run: RunDetails) -> bool:
    """A machine on its way out of a run that ended says nothing new once it is gone."""
    return run.machine is None or run.machine.state in {MachineState.RELEASED, MachineState.ABSENT}


def _verbs(state: RunState) -> frozenset[str]:
    return frozenset(verb for verb, step in LIFECYCLE.steps.items() if state in step.sources)


def _phase(phase: PhaseTime, run: RunDetails) -> Phase:
    percent = run.progress.percent if phase.stand == "now" else 0
    return Phase(RUN[phase.state].word, phase.stand, _phase_detail(phase, run), percent)


def _phase_detail(phase: PhaseTime, run: RunDetails) -> str:
    if phase.seconds is not None:
        return say_seconds(phase.seconds)
    stopped = run.is_final or run.state in {RunState.PAUSED, RunState.NEEDS_RECOVERY}
    return "not reached" if stopped else "to come"


def _phone_line(phases: Sequence[PhaseTime]) -> tuple[str, str]:
    here = next((n for n, phase in enumerate(phases, 1) if phase.stand in {"now", "stop", "fail", "end"}), None)
    if here is None:
        return "", ""
    phase = phases[here - 1]
    took = say_seconds(phase.seconds) if phase.seconds is not None else ""
    return f"Phase {here} of {len(phases)}, {RUN[phase.state].word}", took


def _percent(value: float | None) -> str:
    return f"{100 * value:.1f} %" if value is not None else ""
