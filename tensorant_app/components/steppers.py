"""The phases of a run, with minutes and dollars each: boxes on a desk, a bar of segments on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.values import each, if_text


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase as the page shows it."""

    word: str
    state: str
    """done, now, todo, stop (waits for a person), fail or end (somebody cancelled it here)."""
    detail: str = ""
    """"52 min · $0.75", "about 2 min", "not reached"."""
    percent: int = 0
    """Of the current phase."""


def stepper(
    phases: Sequence[Phase] | rx.Var[list[Phase]], *, summary: str | rx.Var[str] = "", detail: str | rx.Var[str] = ""
) -> rx.Component:
    """`summary` and `detail` stand under the phone's bar: "Phase 4 of 6, Training", "52 min · $0.75"."""
    boxes = rx.el.ol(*each(phases, _box), class_name="steps", custom_attrs={"aria-label": "Phases"})
    under = rx.el.div(rx.el.span(summary), rx.el.span(detail, class_name="num"), class_name="row between meta")
    segments = rx.el.div(*each(phases, _segment), class_name="segs", aria_hidden=True)
    small = rx.el.div(segments, if_text(summary, under), class_name="on-phone", style={"margin_bottom": "12px"})
    return rx.fragment(boxes, small)


def _box(phase: Phase) -> rx.Component:
    words = rx.el.span(phase.word), _spoken(phase)
    return rx.el.li(
        rx.el.div(_drawing(phase), *words, class_name="t"),
        rx.el.div(phase.detail, class_name="d"),
        _bar(phase),
        class_name="step " + phase.state,
        custom_attrs={"aria-current": _by_state(phase, {"now": "step", "stop": "step"}, "false")},
    )


def _segment(phase: Phase) -> rx.Component:
    inner = rx.el.b(style={"width": f"{phase.percent}%"})
    if isinstance(phase.state, rx.Var):
        return rx.el.i(rx.cond(phase.state == "now", inner), class_name=phase.state)
    return rx.el.i(*([inner] if phase.state == "now" else []), class_name=phase.state)


def _bar(phase: Phase) -> rx.Component:
    bar = rx.el.div(rx.el.i(style={"width": f"{phase.percent}%"}), class_name="prog", aria_hidden=True)
    if isinstance(phase.state, rx.Var):
        return rx.cond(phase.state == "now", bar)
    return bar if phase.state == "now" else rx.fragment()


_DRAWINGS = {"done": "check", "todo": "circle", "stop": "triangle_alert", "fail": "circle_x", "end": "x"}
_SPOKEN = {
    "done": ", done",
    "now": ", in progress",
    "stop": ", waits for you",
    "fail": ", failed",
    "end": ", cancelled",
    "todo": ", not reached",
}


def _drawing(phase: Phase) -> rx.Component:
    dot = rx.el.span(class_name="pulse", aria_hidden=True)
    if isinstance(phase.state, rx.Var):
        return rx.match(phase.state, *[(state, icon(name)) for state, name in _DRAWINGS.items()], dot)
    return icon(_DRAWINGS[phase.state]) if phase.state in _DRAWINGS else dot


def _spoken(phase: Phase) -> rx.Component:
    return rx.el.span(_by_state(phase, _SPOKEN, ""), class_name="sr")


def _by_state(phase: Phase, words: dict[str, str], otherwise: str) -> str | rx.Var[str]:
    if isinstance(phase.state, rx.Var):
        chosen: rx.Var[str] = rx.match(phase.state, *words.items(), otherwise)
        return chosen
    return words.get(phase.state, otherwise)
