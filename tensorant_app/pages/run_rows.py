"""The rows of the list of runs: every number and reason in words, made on the server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tensorant_app import routes
from tensorant_app.components.sparks import Interval, Spark, interval, signed, spark
from tensorant_app.domain.run_groups import STATES, RunGroup
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.launch_words import say_span
from tensorant_app.pages.words import ago, exact, price_of
from tensorant_app.services.run_list import RunLine, RunPage

CELL = 90
"""Width of the small interval picture."""
_METHODS = {"lora": "LoRA", "qlora": "QLoRA"}


@dataclass(frozen=True)
class RunRow:
    id: str
    name: str
    short: str
    """The beginning of its id, as a person would quote it."""
    href: str
    state: str
    machine: str
    is_checking: bool
    is_trial: bool
    is_live: bool
    under: str
    """Why it is where it is."""
    percent: int
    """Of the work that goes on; −1 where none does."""
    data: str
    method: str
    loss: str
    losses: Spark
    change: str
    """Against the baseline, in points."""
    tone: str
    bounds: Interval
    has_bounds: bool
    created: str
    created_exact: str
    owner: str
    initials: str
    is_draft: bool
    can_retry: bool
    spent: str
    spent_word: str


def rows_of(found: RunPage, project: str) -> list[RunRow]:
    judged = [line for line in found.lines if line.lower is not None and line.upper is not None]
    low = min((min(line.lower or 0, line.margin) for line in judged), default=0.0) * 100
    high = max((max(line.upper or 0, line.margin) for line in judged), default=0.0) * 100
    return [_row(line, project, (low, high)) for line in found.lines]


def _row(line: RunLine, project: str, axis: tuple[float, float]) -> RunRow:
    bounds = _bounds(line, axis)
    plain = str(line.id)
    spent, word = price_of(line.spend)
    return RunRow(
        id=plain,
        name=line.name,
        short=plain[:13],
        href=routes.run(project, line.id),
        state=line.state.value,
        machine=line.machine.value if line.machine else "",
        is_checking=line.is_checking,
        is_trial=line.purpose.value == "trial",
        is_live=line.state in STATES[RunGroup.LIVE],
        under=_under(line),
        percent=_percent(line),
        data=f"v{line.version}",
        method=f"{_METHODS[line.method]} r{line.rank}",
        loss="" if line.validation_loss is None else f"{line.validation_loss:.3f}",
        losses=spark(line.losses),
        change="" if line.difference is None else signed(line.difference * 100),
        tone=bounds.tone,
        bounds=bounds,
        has_bounds=line.lower is not None,
        created=ago(line.created_at).removesuffix(" ago"),
        created_exact=exact(line.created_at),
        owner=line.owner,
        initials="".join(word[0] for word in line.owner.split()[:2]).upper(),
        is_draft=line.state is RunState.DRAFT,
        can_retry=line.can_retry,
        spent=spent,
        spent_word=word,
    )


def _bounds(line: RunLine, axis: tuple[float, float]) -> Interval:
    """All rows of a page on one axis, so that they can be compared."""
    low, middle, high = ((value or 0.0) * 100 for value in (line.lower, line.difference, line.upper))
    return interval(low, middle, high, margin=line.margin * 100, axis=axis, width=CELL)


def _percent(line: RunLine) -> int:
    match line.state:
        case RunState.TRAINING if line.total_steps:
            return 100 * line.step // line.total_steps
        case RunState.EVALUATING if line.to_score:
            return 100 * line.scored // line.to_score
    return -1


def _under(line: RunLine) -> str:
    match line.state:
        case RunState.TRAINING if line.total_steps:
            left = ""
            if line.seconds_left is not None:
                left = f" · {say_span(timedelta(seconds=line.seconds_left))} left"
            return f"Step {line.step:,} of {line.total_steps:,}{left}"
        case RunState.EVALUATING if line.to_score:
            return f"{line.scored:,} of {line.to_score:,} test rows"
        case RunState.DRAFT if line.failing:
            more = f", and {len(line.failing) - 1} more" if len(line.failing) > 1 else ""
            return f"{line.failing[0]}{more}"
        case RunState.COMPLETED | RunState.NO_GAIN if line.lower is not None:
            return _judged(line, line.lower)
    return line.sentence or _PLAIN.get(line.state, "")


def _judged(line: RunLine, lower: float) -> str:
    bound = signed(lower * 100)
    if line.state is RunState.COMPLETED:
        return f"Gate passed, lower bound {bound}"
    if lower > line.margin:
        return line.sentence or "The gate was not passed"
    return f"Lower bound {bound} is not above {signed(line.margin * 100)}"


_PLAIN = {
    RunState.DRAFT: "Saved, not started",
    RunState.QUEUED: "Waits for its checks or a free slot",
    RunState.LAUNCHING: "A machine was asked for",
    RunState.PREPARING: "Reads the model and the rows",
    RunState.PACKAGING: "Writes and verifies the adapter",
    RunState.ADAPTER_READY: "Not scored yet",
    RunState.EVALUATING: "Waits for a machine to score on",
    RunState.PAUSED: "A checkpoint is saved; resume when you want",
}
