"""Steps of editing come to one state, and an undone step is as if it had never been."""

from __future__ import annotations

from tensorant_app.domain.edits import Edit, EditKind, fold, origin, standing

_K = EditKind


def test_the_last_step_of_a_row_counts() -> None:
    made = fold(
        [
            Edit(1, _K.LEAVE_OUT, (3, 4)),
            Edit(2, _K.CHANGE, (4,), "new", was_rejected=True),
            Edit(3, _K.CHANGE, (5,), "other"),
            Edit(4, _K.PUT_BACK, (5,)),
        ]
    )

    assert (made.left_out, made.changed, made.mended) == ({3}, {4: "new"}, {4})
    assert made.ready(accepted=10, rejected={4, 6}) == 10 + 1 - 1
    assert made.open_errors({4, 6}) == {6}


def test_a_rejected_row_that_is_left_out_is_no_error_any_more_and_was_never_ready() -> None:
    steps = [Edit(1, _K.LEAVE_OUT, (3, 6))]

    assert (fold(steps).ready(10, {6, 7}), fold(steps).open_errors({6, 7})) == (9, {7})
    steps.append(Edit(2, _K.CHANGE, (6,), "new", was_rejected=True))
    assert (fold(steps).ready(10, {6, 7}), fold(steps).open_errors({6, 7})) == (10, {7})
    steps.append(Edit(3, _K.LEAVE_OUT, (6, 7)))
    assert (fold(steps).ready(10, {6, 7}), fold(steps).open_errors({6, 7})) == (9, set())
    steps.append(Edit(4, _K.PUT_BACK, (6, 7)))
    assert (fold(steps).ready(10, {6, 7}), fold(steps).open_errors({6, 7})) == (9, {6, 7})


def test_an_undo_takes_back_the_step_that_it_names_and_nothing_else() -> None:
    steps = [
        Edit(1, _K.CHANGE, (2,), "first"),
        Edit(2, _K.CHANGE, (2,), "second"),
        Edit(3, _K.UNDO, undoes=2),
        Edit(4, _K.LEAVE_OUT, (9,)),
    ]

    assert [step.id for step in standing(steps)] == [1, 4]
    assert fold(steps).changed == {2: "first"}
    assert fold([*steps, Edit(5, _K.UNDO, undoes=4), Edit(6, _K.UNDO, undoes=1)]).stored() == {}


def test_rows_of_another_file_keep_their_own_numbers_besides() -> None:
    steps = [
        Edit(1, _K.APPEND, (42,), source="b", added=7),
        Edit(2, _K.APPEND, (52,), source="c", added=3),
    ]
    made = fold(steps)

    assert made.ready(accepted=40, rejected=set()) == 50
    names = {"b": "b.csv", "c": "c.csv"}
    assert [origin(row, made.appended, names, "a.csv") for row in (42, 43, 52, 53)] == [
        ("a.csv", 42),
        ("b.csv", 1),
        ("b.csv", 10),
        ("c.csv", 1),
    ]
