"""The gate in a sentence with its interval, the four counts, and answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.badges import Look, badge, gate_badge, soft_badge
from tensorant_app.components.icons import icon
from tensorant_app.components.sparks import Interval, interval_picture
from tensorant_app.components.values import Flag, Node, Number, Text, if_


def verdict(
    passed: Flag, sentence: Node, why: Node, line: Interval | rx.Var[Interval], *, more_badges: Sequence[Node] = ()
) -> rx.Component:
    """Read first: "Better than the baseline by 6.1 points", why, and the interval against the margin."""
    return rx.el.div(
        rx.el.div(
            rx.el.div(gate_badge(passed), *more_badges, class_name="row"),
            rx.el.h2(sentence),
            rx.el.p(why),
        ),
        interval_picture(line),
        class_name="verdict",
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by who answered them right."""

    both_right: int
    gained: int
    lost: int
    both_wrong: int


def ratio(counts: Counts | rx.Var[Counts], *aside: Node) -> rx.Component:
    """The four counts as a bar and as numbers."""
    kinds: list[tuple[str, Number, str]] = [
        ("", counts.both_right, "both right"),
        ("g", counts.gained, "gained"),
        ("r", counts.lost, "lost"),
        ("x", counts.both_wrong, "both wrong"),
    ]
    bars = [_bar(count, look) for look, count, _ in kinds]
    items = [
        rx.el.li(rx.el.i(class_name=f"sq {look}"), rx.el.b(count), rx.el.span(word, class_name="gray"))
        for look, count, word in kinds
    ]
    notes = [rx.el.li(note, class_name="meta num") for note in aside]
    gap = [rx.el.li(class_name="grow wide-only", aria_hidden=True)] if notes else []
    return rx.el.div(
        rx.el.div(*bars, class_name="ratio", aria_hidden=True), rx.el.ul(*items, *gap, *notes, class_name="counts")
    )


def three_answers(
    expected: Node, baseline: Node, adapter: Node, *, baseline_right: Flag, adapter_right: Flag
) -> rx.Component:
    """Expected, baseline and adapter side by side; wrong and exact in words."""
    return rx.el.div(
        rx.el.div(rx.el.div("Expected", class_name="h"), expected),
        rx.el.div(rx.el.div("Baseline", right_or_wrong(baseline_right), class_name="h"), baseline),
        rx.el.div(rx.el.div("Adapter", right_or_wrong(adapter_right), class_name="h"), adapter),
        class_name="trip",
    )


def right_or_wrong(is_right: Flag, is_likely: Flag = False) -> rx.Component:
    """`is_likely`: other words, but the right label is the one that the model finds most likely."""
    likely = rx.el.span(icon("check", size=12), "by likelihood", class_name="row gray", style={"gap": "4px"})
    good = rx.el.span(icon("check", size=12), "exact", class_name="row good", style={"gap": "4px"})
    bad = rx.el.span(icon("x", size=12), "wrong", class_name="row bad", style={"gap": "4px"})
    return if_(is_right, good, if_(is_likely, likely, bad))


def change_badge(change: Text) -> rx.Component:
    """gained, lost, or nothing to say (both right, both wrong)."""
    gained = badge(Look("Gained", "trending_up", "green"))
    lost = badge(Look("Lost", "trending_down", "red"))
    wrong = soft_badge("Both wrong")
    if isinstance(change, rx.Var):
        return rx.match(change, ("gained", gained), ("lost", lost), ("both_wrong", wrong), rx.fragment())
    return {"gained": gained, "lost": lost, "both_wrong": wrong}.get(change, rx.fragment())


def _bar(count: Number, look: str) -> rx.Component:
    bar = rx.el.i(class_name=look, style={"flex_grow": f"{count}", "flex_basis": "0"})
    return if_(count > 0, bar)
