"""What a version's check found, in the words of its page."""

from __future__ import annotations

from tensorant_app.components.checks import CheckLine
from tensorant_app.domain.wording import count
from tensorant_app.services.safety import SafetyLook
from tensorant_app.services.versions import Report

_MOST_SHOWN = 50
LOOKS = {
    SafetyLook.DONE: "",
    SafetyLook.GOING_ON: "The rows are being looked through by the safety settings of now.",
    SafetyLook.OUTDATED: "The safety settings have changed since these rows were looked through.",
    SafetyLook.FAILED: "The safety check is not done, and no run can start on these rows.",
}
"""What is to be said of the safety check beside its findings."""


def findings_of(report: Report) -> list[CheckLine]:
    """What to look at, worst first; a clean check says so in two lines."""
    errors, found = report.mask.refused_rows, report.safety
    lines = []
    if errors:
        lines.append(
            CheckLine("refuse", f"{count(errors, 'row')} cannot be trained", "Mend the file and import it again.")
        )
    lines += [
        CheckLine("warn", str(one["message"]), "A run on this data is refused until it is removed.")
        for one in found[:_MOST_SHOWN]
    ]
    if len(found) > _MOST_SHOWN:
        rows = count(report.safety_check.rows, "row")
        lines.append(CheckLine("warn", f"… and more; the safety check refuses {rows} in all"))
    if report.safety_check.sentence:
        lines.append(CheckLine("refuse", report.safety_check.sentence, "The rows count as not checked."))
    lines += [CheckLine("warn", warning) for warning in report.warnings]
    if report.images:
        taken = count(sum(report.mask.image_tokens.values()), "token")
        lines.append(
            CheckLine("warn", f"{count(report.images, 'image')}, {taken} in all", "Training on images comes later.")
        )
    if not errors:
        lines.append(CheckLine("pass", "The base model's template renders every row"))
    if not found and not report.safety_check.has_failed:
        lines.append(CheckLine("pass", "The safety check refuses no row"))
    return lines
