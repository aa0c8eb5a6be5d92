"""What Configure shows beside the form: numbers and findings in words, made on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorant_app import routes
from tensorant_app.components.checks import CheckLine
from tensorant_app.domain import place_form
from tensorant_app.domain.readiness import Finding, Verdict, gib
from tensorant_app.domain.run_form import BY_NAME, FIELDS, NAME, PURPOSE, SETTINGS, TRIAL, changed_fields
from tensorant_app.pages.launch_words import say_time
from tensorant_app.services import previews
from tensorant_app.services.drafts import VersionChoice
from tensorant_app.services.estimates import Estimate
from tensorant_app.services.readiness import Subject

NAMES = (NAME, *(field.name for field in FIELDS))
TRAINER_WAITS = CheckLine("wait", "The trainer trains one step on a tiny model", "Up to a minute, then known for 15")
_ORDER = {Verdict.REFUSE: 0, Verdict.WARN: 1, Verdict.PASS: 2}


@dataclass(frozen=True)
class Summary:
    """The right-hand column; dashes while the form cannot be counted."""

    time: str = "–"
    source: str = "Choose a dataset version and mend the fields marked red."
    rows: str = "–"
    tokens: str = "–"
    steps: str = "–"
    steps_note: str = ""
    batch: str = "–"
    sway: str = ""
    """What pulls the time up or down."""
    needed: str = "–"
    """Memory."""


@dataclass(frozen=True)
class Memory:
    """The bar: percent of what is free now."""

    percent: int = 0
    free: str = ""
    words: str = ""
    is_short: bool = False


def summarize(estimate: Estimate | None) -> Summary:
    if estimate is None:
        return Summary()
    plan = estimate.plan
    return Summary(
        time=say_time(estimate),
        source=estimate.source_words,
        sway=estimate.sway,
        rows=f"{estimate.rows:,}",
        tokens=say_tokens(estimate.tokens_per_epoch),
        steps=f"{plan.total_steps:,}",
        steps_note=f"{plan.steps_per_epoch:,} × {estimate.epochs} epochs",
        batch=f"{estimate.effective_batch:,}",
        needed=gib(estimate.memory),
    )


def say_tokens(tokens: int) -> str:
    """ "840", "12.4 k", "5.14 M"."""
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.2f} M"
    return f"{tokens / 1e3:.1f} k" if tokens >= 10_000 else f"{tokens:,}"


def fill_memory(needed: int, free: int, *, is_rented: bool = False) -> Memory:
    """`free`: of this computer now, or all of a rented GPU's."""
    if free <= 0 or needed <= 0:
        return Memory()
    percent = min(round(100 * needed / free), 100)
    words = f"{gib(needed)} of {gib(free)} {'on each GPU' if is_rented else 'that are free now'}"
    return Memory(percent, f"{free / 2**30:.0f} GB", words, needed > free)


def lines_of(findings: Sequence[Finding], subject: Subject) -> tuple[list[CheckLine], list[CheckLine]]:
    """What is open, worst first, each with what mends it; and what passed."""
    ordered = sorted(findings, key=lambda finding: _ORDER[finding.verdict])
    lines = [_line(finding, subject) for finding in ordered]
    return [line for line in lines if line.verdict != "pass"], [line for line in lines if line.verdict == "pass"]


def _line(finding: Finding, subject: Subject) -> CheckLine:
    mend = previews.mend_of(finding, subject)
    if mend is None:
        return CheckLine(finding.verdict.value, finding.sentence)
    key = f"place:{mend.place}" if mend.place else f"{mend.field}={mend.value}"
    return CheckLine(finding.verdict.value, finding.sentence, fix=mend.label, key=key)


def default_marks(typed: dict[str, str]) -> dict[str, bool]:
    names = (PURPOSE, *SETTINGS, *TRIAL, *(name for name in place_form.FIELDS if name != "gpu_type"))
    changed = set(changed_fields(typed, names))
    return {name: name not in changed for name in names}


def changed_words(typed: dict[str, str]) -> str:
    count = len(changed_fields(typed))
    return f"{count} changed from default" if count else "All at their defaults"


def rows_words(version: VersionChoice | None) -> str:
    if version is None:
        return "A frozen version"
    return (
        ", ".join(f"{count:,} {'training' if split == 'train' else split}" for split, count in version.rows.items())
        + " rows"
    )


def hint_of(name: str, is_default: bool) -> str:
    """The range, and the default where something else is typed."""
    field = BY_NAME[name]
    says_default = not is_default and field.hint and field.default and not field.choices
    return f"{field.hint}, default {field.default}" if says_default else field.hint


def address_of(place: str, project: str) -> str:
    """Where a failed check's button leads."""
    if place == "connections":
        return routes.CONNECTIONS
    build = {"baseline": routes.baseline, "settings": routes.project_settings}.get(place, routes.data)
    return build(project)
