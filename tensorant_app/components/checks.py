"""The readiness list: what fails first and what mends it, what passed folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.badges import soft_badge
from tensorant_app.components.icons import icon
from tensorant_app.components.values import Handler, Node, Number, Text, each, if_


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One finding as it is shown."""

    verdict: str
    """pass, warn, refuse or wait (still being checked)."""
    sentence: str
    under: str = ""
    fix: str = ""
    """The label of the button that mends it; empty where nothing can be pressed."""
    key: str = ""
    """What the fix handler gets."""


def checks(lines: Sequence[CheckLine] | rx.Var[list[CheckLine]], on_fix: Handler = None) -> rx.Component:
    """The findings in the order given: failed, warned, then passed."""
    return rx.el.ul(*each(lines, lambda line: _line(line, on_fix)), class_name="checks")


def readiness(
    open_lines: Sequence[CheckLine] | rx.Var[list[CheckLine]],
    passed: Sequence[CheckLine] | rx.Var[list[CheckLine]],
    passed_words: Text,
    on_fix: Handler = None,
) -> rx.Component:
    """What is open first, in full; what passed folded under "14 checks passed"."""
    some = passed.length() > 0 if isinstance(passed, rx.Var) else bool(passed)
    folded = rx.el.details(
        rx.el.summary(icon("check"), rx.el.span(passed_words)),
        checks(passed),
        class_name="fold",
    )
    return rx.el.div(checks(open_lines, on_fix), if_(some, folded))


def readiness_badge(to_fix: Number, passed_words: Text) -> rx.Component:
    """ "1 to fix" in red, or "16 of 16 passed" in green."""
    bad = soft_badge(icon("circle_x", size=12), f"{to_fix} to fix", color="red")
    good = soft_badge(icon("check", size=12), passed_words, color="green")
    if isinstance(to_fix, rx.Var):
        return rx.cond(to_fix > 0, bad, good)
    return bad if to_fix else good


_LOOK = {
    "pass": ("ok", "check"),
    "warn": ("wa", "triangle_alert"),
    "refuse": ("no", "circle_x"),
    "wait": ("wt", "loader_circle"),
}
_SPOKEN = {"pass": "Passed: ", "warn": "Warning: ", "refuse": "Fails: ", "wait": "Being checked: "}


def _line(line: CheckLine, on_fix: Handler) -> rx.Component:
    return rx.el.li(
        _by(line, {verdict: icon(name, spins=verdict == "wait") for verdict, (_, name) in _LOOK.items()}),
        rx.el.div(
            rx.el.span(_by(line, dict(_SPOKEN)), class_name="sr"),
            line.sentence,
            if_(_some(line.under), rx.el.div(line.under, class_name="meta")),
            if_(_some(line.fix), _fix(line, on_fix)) if on_fix is not None else rx.fragment(),
        ),
        class_name=_by(line, {verdict: word for verdict, (word, _) in _LOOK.items()}),
    )


def _fix(line: CheckLine, on_fix: Handler) -> rx.Component:
    button = rx.button(
        line.fix,
        class_name="b soft sm",
        variant="soft",
        high_contrast=True,
        type="button",
        on_click=on_fix(line.key),
    )
    return rx.el.div(button, class_name="fix")


def _by(line: CheckLine, words: dict[str, Node]) -> Node:
    if isinstance(line.verdict, rx.Var):
        cases = list(words.items())
        matched: Node = rx.match(line.verdict, *cases[:-1], cases[-1][1])
        return matched
    return words[line.verdict]


def _some(text: str | rx.Var[str]) -> bool | rx.Var[bool]:
    if isinstance(text, rx.Var):
        filled: rx.Var[bool] = text != ""
        return filled
    return bool(text)
