"""A metric of thousands of steps as a few buckets of minimum and maximum, and the points a chart draws of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

MOST_BUCKETS = 600
"""Kept per curve; the width of a bucket doubles whenever there are more."""
_WINDOW_SHARE = 0.05
"""Of the points: what the smoothed line is a mean of."""
_SMALLEST_WINDOW = 5
_DIGITS = 4

Point = tuple[float, float]
"""Step and value."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a metric did over the steps of one bucket."""

    step: int
    """Its first."""
    low: float
    high: float
    last: float

    def joined(self, later: Bucket) -> Bucket:
        return Bucket(self.step, min(self.low, later.low), max(self.high, later.high), later.last)


@dataclass(frozen=True, slots=True)
class Folded:
    """One curve of one attempt."""

    width: int
    """Steps in each bucket."""
    buckets: tuple[Bucket, ...]
    last_step: int
    """The newest step folded; a line at or before it is a step done again."""


EMPTY = Folded(1, (), -1)


def fold(curve: Folded, values: Mapping[int, float]) -> Folded:
    """The curve with newer steps added; all of them lie after its last step."""
    if not values:
        return curve
    fresh = [_bucket(step, values[step]) for step in sorted(values)]
    width, buckets = curve.width, _merged([*curve.buckets, *fresh], curve.width)
    while len(buckets) > MOST_BUCKETS:
        width *= 2
        buckets = _merged(buckets, width)
    return Folded(width, tuple(buckets), max(values))


def joined(attempts: Sequence[Folded]) -> Folded:
    """One curve of all attempts in their order: what a later attempt did again counts instead of the earlier."""
    known = [attempt for attempt in attempts if attempt.buckets]
    if not known:
        return EMPTY
    buckets: list[Bucket] = []
    for attempt in known:
        begin = attempt.buckets[0].step
        buckets = [bucket for bucket in buckets if bucket.step < begin] + list(attempt.buckets)
    return Folded(max(attempt.width for attempt in known), tuple(buckets), known[-1].last_step)


def thinned(curve: Folded, most: int) -> Folded:
    """At most so many buckets."""
    width, buckets = curve.width, list(curve.buckets)
    while len(buckets) > most:
        width *= 2
        buckets = _merged(buckets, width)
    return Folded(width, tuple(buckets), curve.last_step)


def extremes(curve: Folded) -> list[Point]:
    """Both ends of each bucket, so that no spike is lost; a bucket of one value is one point."""
    points: list[Point] = []
    for bucket in curve.buckets:
        if bucket.low == bucket.high:
            points.append((bucket.step, bucket.last))
        else:
            middle = bucket.step + curve.width / 2
            points += [(bucket.step, bucket.high), (middle, bucket.low)]
    return points


def lasts(curve: Folded) -> list[Point]:
    """The last value of each bucket."""
    return [(bucket.step, bucket.last) for bucket in curve.buckets]


def smoothed(curve: Folded) -> list[Point]:
    """An exponential mean from both sides: one from the left alone lies above a falling curve."""
    middles = [(bucket.low + bucket.high + bucket.last) / 3 for bucket in curve.buckets]
    keep = 1 - 2 / (max(_SMALLEST_WINDOW, _WINDOW_SHARE * len(middles)) + 1)
    before, after = _decayed(middles, keep), _decayed(middles[::-1], keep)[::-1]
    points: list[Point] = []
    for bucket, own, (left, lefts), (right, rights) in zip(curve.buckets, middles, before, after, strict=True):
        points.append((bucket.step, _rounded((left + right - own) / (lefts + rights - 1))))
    return points


def _decayed(values: Sequence[float], keep: float) -> list[tuple[float, float]]:
    """At each place the sum of it and all before, each step back weighing less, and the sum of these weights."""
    total = weight = 0.0
    sums: list[tuple[float, float]] = []
    for value in values:
        total, weight = keep * total + value, keep * weight + 1
        sums.append((total, weight))
    return sums


def highs(curve: Folded) -> list[Point]:
    """The maximum of each full bucket: one that has only begun would look like a fall."""
    return [(bucket.step, bucket.high) for bucket in _full(curve)]


def lows(curve: Folded) -> list[Point]:
    """The minimum of each full bucket."""
    return [(bucket.step, bucket.low) for bucket in _full(curve)]


def say_trend(smooth: Sequence[Point], validation: Sequence[Point]) -> str:
    """What the loss chart shows, in a sentence."""
    if len(smooth) < 2:
        return "The curve begins with the second step."
    training = _direction(smooth)
    if len(validation) < 2:
        return f"The training loss is {training}."
    before, now = validation[-2], validation[-1]
    change = round(now[1] - before[1], 3)
    moved = "fell" if change < 0 else "rose" if change > 0 else "did not change"
    by = f" by {abs(change):.3f}" if change else ""
    since = f"between steps {before[0]:,.0f} and {now[0]:,.0f}"
    warning = " A rising validation loss under a falling training loss means it learns the rows by heart."
    return f"The training loss is {training}. Validation {moved}{by} {since}." + (
        warning if change > 0 and training == "still falling" else ""
    )


def _direction(points: Sequence[Point]) -> str:
    """The last fifth of the curve against the fifth before it; a twentieth either way is noise."""
    size = max(1, len(points) // 5)
    before, now = (sum(value for _, value in part) for part in (points[-2 * size : -size], points[-size:]))
    if abs(now - before) < 0.05 * max(abs(before), 1e-9):
        return "level"
    return "still falling" if now < before else "rising"


def _full(curve: Folded) -> Sequence[Bucket]:
    *earlier, last = curve.buckets or (None,)
    if last is None:
        return ()
    begun = (last.step - 1) % curve.width + curve.last_step - last.step + 1
    return curve.buckets if begun >= curve.width or not earlier else curve.buckets[:-1]


def _merged(buckets: Sequence[Bucket], width: int) -> list[Bucket]:
    """Buckets that begin at multiples of the width; step 1 is in the first."""
    merged = []
    for _, group in groupby(buckets, lambda bucket: (max(bucket.step, 1) - 1) // width):
        first, *rest = group
        for bucket in rest:
            first = first.joined(bucket)
        merged.append(first)
    return merged


def _bucket(step: int, value: float) -> Bucket:
    kept = _rounded(value)
    return Bucket(step, kept, kept, kept)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
