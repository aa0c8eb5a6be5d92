"""Folding a metric into buckets."""

from __future__ import annotations

from tensorant_app.domain.curves import (
    EMPTY,
    MOST_BUCKETS,
    extremes,
    fold,
    highs,
    joined,
    lows,
    say_trend,
    smoothed,
    thinned,
)


def test_few_steps_are_kept_as_they_are() -> None:
    curve = fold(EMPTY, {1: 2.0, 2: 1.5, 3: 1.0})

    assert extremes(curve) == [(1, 2.0), (2, 1.5), (3, 1.0)]
    assert (curve.width, curve.last_step) == (1, 3)


def test_a_hundred_thousand_steps_are_at_most_600_buckets_that_lose_no_spike() -> None:
    curve = EMPTY
    for start in range(1, 100_001, 5_000):
        curve = fold(curve, {step: 9.0 if step == 51_234 else 1.0 for step in range(start, start + 5_000)})

    assert len(curve.buckets) <= MOST_BUCKETS
    assert max(bucket.high for bucket in curve.buckets) == 9.0
    assert max(value for _, value in extremes(thinned(curve, 40))) == 9.0


def test_folding_piece_by_piece_is_folding_at_once() -> None:
    values = {step: 1 / step for step in range(1, 3_001)}

    pieces = EMPTY
    for start in range(1, 3_001, 7):
        pieces = fold(pieces, {step: values[step] for step in range(start, min(start + 7, 3_001))})

    assert pieces == fold(EMPTY, values)


def test_what_a_later_attempt_did_again_counts() -> None:
    first = fold(EMPTY, dict.fromkeys(range(1, 11), 5.0))
    second = fold(EMPTY, dict.fromkeys(range(6, 16), 1.0))

    points = extremes(joined([first, second]))

    assert points == [(step, 5.0) for step in range(1, 6)] + [(step, 1.0) for step in range(6, 16)]


def test_the_smoothed_curve_runs_through_a_falling_one() -> None:
    """The noise alternates, so that a line through the middle of it lies on the curve without it."""
    clean = {step: 1.0 + 2.0 * 0.98**step for step in range(1, 301)}
    noisy = {step: loss + (0.3 if step % 2 else -0.3) for step, loss in clean.items()}

    points = smoothed(fold(EMPTY, noisy))

    assert all(abs(value - clean[int(step)]) < 0.1 for step, value in points[10:-10])
    assert abs(points[-1][1] - clean[300]) < 0.1


def test_the_smoothed_curve_weighs_its_ends_right() -> None:
    """Of a level line it is that line, from the first point on."""
    assert {value for _, value in smoothed(fold(EMPTY, dict.fromkeys(range(1, 8), 2.0)))} == {2.0}
    assert smoothed(fold(EMPTY, {1: 3.0})) == [(1, 3.0)]
    assert smoothed(EMPTY) == []


def test_a_bucket_that_has_only_begun_is_not_drawn() -> None:
    curve = thinned(fold(EMPTY, {step: float(step) for step in range(1, 42)}), 20)

    assert (curve.width, highs(curve)[-1]) == (4, (37, 40.0))
    assert lows(fold(EMPTY, {1: 3.0})) == [(1, 3.0)]


def test_the_sentence_warns_where_validation_rises_under_a_falling_loss() -> None:
    falling = [(step, 2.0 - step / 10) for step in range(1, 11)]

    said = say_trend(falling, [(5, 0.5), (10, 0.6)])

    assert "Validation rose by 0.100" in said
    assert "by heart" in said


def test_a_change_that_three_digits_do_not_show_is_none() -> None:
    said = say_trend([(1, 2.0), (2, 1.0)], [(1, 0.59841), (2, 0.59839)])

    assert "Validation did not change between steps 1 and 2." in said
