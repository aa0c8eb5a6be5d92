"""Small pictures of numbers, drawn on the server: the line of a loss, and an interval against a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.values import Flag, Text, if_text, pick

WIDTH, HEIGHT = 52, 16


@dataclass(frozen=True, slots=True)
class Spark:
    """A drawn line; `path` is empty where there is nothing to draw."""

    path: str = ""
    end_x: str = "0"
    end_y: str = "0"
    words: str = ""
    """What it says, for who listens: "from 2.10 to 0.47"."""


def spark(values: Sequence[float], *, width: int = WIDTH, height: int = HEIGHT) -> Spark:
    """At most 24 points of the values, in a box of the given size."""
    if len(values) < 2:
        return Spark()
    every = max(1, -(-len(values) // 24))
    points = [*values[::every]]
    if (len(values) - 1) % every:
        points.append(values[-1])
    low, high = min(points), max(points)
    span = (high - low) or 1.0
    xs = [width * n / (len(points) - 1) for n in range(len(points))]
    ys = [1 + (height - 2) * (high - value) / span for value in points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
    return Spark(path, f"{xs[-1]:.1f}", f"{ys[-1]:.1f}", f"from {values[0]:.3g} to {values[-1]:.3g}")


def sparkline(
    line: Spark | rx.Var[Spark], *, is_live: Flag = False, width: int = WIDTH, height: int = HEIGHT
) -> rx.Component:
    """Gray, or in the training colour while the run is live."""
    drawing = rx.el.svg(
        rx.el.path(d=line.path),
        rx.el.circle(cx=line.end_x, cy=line.end_y, r="1.75"),
        view_box=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
        class_name=pick(is_live, "spark live", "spark"),
        role="img",
        custom_attrs={"aria-label": line.words},
    )
    return if_text(line.path, drawing)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval laid out on an axis: positions in the drawing and words for its marks."""

    low: str
    middle: str
    high: str
    margin: str
    low_words: str
    middle_words: str
    high_words: str
    margin_words: str
    words: str
    tone: str = ""
    """good above the margin, bad below it, empty across it."""
    right: str = "400"
    zone: str = "0"
    """Width of the tinted zone from the margin to the right end."""


def interval(
    low: float,
    middle: float,
    high: float,
    *,
    margin: float = 0.0,
    axis: tuple[float, float] | None = None,
    width: int = 400,
) -> Interval:
    """In points. Without `axis` it is as wide as the interval and the margin ask for."""
    start, end = axis or (min(low, margin), max(high, margin))
    inset = 4 if axis else 44

    def x(value: float) -> float:
        return inset + (width - 2 * inset) * (min(max(value, start), end) - start) / ((end - start) or 1.0)

    tone = "good" if low > margin else "bad" if high < margin else ""
    words = f"Difference {signed(middle)} points, 95 % interval from {signed(low)} to {signed(high)}, margin {signed(margin)}."
    return Interval(
        *[f"{x(value):.1f}" for value in (low, middle, high, margin)],
        *[signed(value) for value in (low, middle, high, margin)],
        words=words,
        tone=tone,
        right=f"{width - 4}",
        zone=f"{width - 4 - x(margin):.1f}",
    )


def interval_picture(line: Interval | rx.Var[Interval], *, width: int = 400) -> rx.Component:
    """The large one: the zone above the margin, whiskers, and a number at each mark."""
    return rx.el.svg(
        rx.el.rect(x=line.margin, y="18", width=line.zone, height="40", class_name="z"),
        rx.el.line(x1=line.margin, x2=line.margin, y1="12", y2="62", class_name="m"),
        _text(line.middle, "10", line.middle_words, "s"),
        _text(line.low, "42", line.low_words, "", anchor="end", shift="-7"),
        _text(line.high, "42", line.high_words, "", anchor="start", shift="7"),
        _text(line.margin, "76", f"Margin {line.margin_words}", ""),
        *_whiskers(line, 38, 6),
        view_box=f"0 0 {width} 82",
        width="100%",
        class_name="ci " + line.tone,
        role="img",
        custom_attrs={"aria-label": line.words},
    )


def interval_cell(line: Interval | rx.Var[Interval], *, width: int = 110) -> rx.Component:
    """The small one of a table's row; make it with one `axis` for all rows and this `width`."""
    return rx.el.svg(
        rx.el.line(x1=line.margin, x2=line.margin, y1="1", y2="17", class_name="g"),
        *_whiskers(line, 9, 3),
        view_box=f"0 0 {width} 18",
        width=str(width),
        height="18",
        class_name="ci " + line.tone,
        role="img",
        custom_attrs={"aria-label": line.words},
    )


def signed(value: float, digits: int = 1) -> str:
    """With a real minus, and a plus where it is above zero."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return "0"
    return f"+{text}" if value > 0 else f"−{text}"


def _whiskers(line: Interval | rx.Var[Interval], y: int, tall: int) -> list[rx.Component]:
    return [
        rx.el.line(x1=line.low, x2=line.high, y1=str(y), y2=str(y), class_name="w"),
        *[rx.el.line(x1=x, x2=x, y1=str(y - tall), y2=str(y + tall), class_name="w") for x in (line.low, line.high)],
        rx.el.circle(cx=line.middle, cy=str(y), r="5" if tall > 4 else "3", class_name="p"),
    ]


def _text(x: Text, y: str, words: Text, look: str, *, anchor: str = "middle", shift: str = "0") -> rx.Component:
    return rx.el.text(words, class_name=look, custom_attrs={"x": x, "y": y, "dx": shift, "textAnchor": anchor})
