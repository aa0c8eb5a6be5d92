"""The page of an evaluation, and the list of them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tensorant_app import routes
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.session import reading
from tensorant_app.pages.evaluations import EvaluationsState
from tensorant_app.pages.scorecard import ScorecardState
from tensorant_app.pages.scorecard_words import mark
from tensorant_app.services import evaluations
from tests.factories import make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, run
from tests.trained import put_answers, score_run


def address(evaluation_id: UUID) -> str:
    with reading() as session:
        return routes.scorecard(session.get_one(Evaluation, evaluation_id).project_id, evaluation_id)


@pytest.fixture
def scored(owner: Person) -> UUID:
    """100 rows: 40 both right, 30 gained, 5 lost, 25 both wrong."""
    return score_run(make_run(owner.caller), base=range(1, 46), tuned=[*range(6, 46), *range(46, 76)])


def test_the_verdict_is_a_sentence_and_the_counts_add_up(owner: Person, scored: UUID) -> None:
    state = visit(ScorecardState, owner, address(scored), "enter", "load")

    counts = state.counts
    assert (counts.both_right, counts.gained, counts.lost, counts.both_wrong) == (40, 30, 5, 25)
    assert (state.ruling.passed, state.ruling.sentence) == (True, "Better than the baseline by 25.0 points")
    assert state.line.tone == "good"
    assert [row.name for row in state.metrics] == ["Exact match", "Token F1", "Right by likelihood", "Did not stop"]
    assert state.metrics[0].difference == "+25.0"


def test_no_gain_is_said_plainly(owner: Person) -> None:
    scored = score_run(make_run(owner.caller), base=range(1, 46), tuned=range(3, 49))

    state = visit(ScorecardState, owner, address(scored), "enter", "load")

    assert (state.ruling.passed, state.ruling.sentence) == (False, "No sure gain over the baseline")
    assert "not above the margin" in state.ruling.why


@pytest.mark.parametrize(
    ("query", "rows", "first"),
    [
        ("", 50, 1),
        ("?from=50", 50, 51),
        ("?show=changed", 35, 1),
        ("?show=gained", 30, 46),
        ("?show=lost", 5, 1),
        ("?show=both_wrong", 25, 76),
        ("?show=nonsense", 50, 1),
        ("?q=BILLING", 50, 2),
        ("?q=nothing+like+it", 0, 0),
    ],
)
def test_the_address_says_which_rows(owner: Person, scored: UUID, query: str, rows: int, first: int) -> None:
    state = visit(ScorecardState, owner, address(scored) + query, "enter", "load")

    assert len(state.rows) == rows
    assert not rows or state.rows[0].row == first


def test_a_row_unfolds_to_both_answers_in_full(owner: Person, scored: UUID) -> None:
    state = visit(ScorecardState, owner, address(scored), "enter", "load")

    run(call(state, "unfold", 3))
    assert (state.opened.row, state.opened.question) == (3, "Where is my container 3, and who pays for it?")
    assert (state.opened.baseline_right, state.opened.adapter_right) == (True, False)
    run(call(state, "unfold", 3))
    assert state.opened.row == 0


def test_an_answer_that_the_gate_counts_as_right_is_not_marked_wrong(owner: Person) -> None:
    scored = score_run(make_run(owner.caller), base=range(1, 46), tuned=range(1, 60))
    with reading() as session:
        baseline_id = session.get_one(Evaluation, scored).baseline_id
    assert baseline_id is not None
    answers = evaluations.read_answers(baseline_id)
    put_answers(baseline_id, [replace(one, exact=False) if one.row == 3 else one for one in answers])

    state = visit(ScorecardState, owner, address(scored), "enter", "load")

    row = next(row for row in state.rows if row.row == 3)
    assert (row.change, row.baseline_right, row.baseline_likely) == ("both_right", False, True)
    assert [row.row for row in state.rows if row.baseline_likely] == [3]
    run(call(state, "unfold", 3))
    assert (state.opened.baseline_likely, [span.kind for span in state.opened.baseline]) == (True, [""])


def test_differing_words_are_marked() -> None:
    spans = mark('{"queue": "billing", "priority": "P1"}', '{"queue": "tracking", "priority": "P1"}', is_right=False)

    assert [span.words for span in spans if span.kind] == ["tracking"]
    assert "".join(span.words for span in spans) == '{"queue": "tracking", "priority": "P1"}'


def test_a_baseline_has_no_verdict_and_two_answers(owner: Person, scored: UUID) -> None:
    with reading() as session:
        baseline = session.get_one(Evaluation, scored).baseline_id
    assert baseline is not None

    state = visit(ScorecardState, owner, address(baseline), "enter", "load")

    assert (state.head.is_baseline, state.ruling.is_there) == (True, False)
    assert [segment.label for segment in state.segments] == ["All", "Right", "Wrong"]


def test_a_viewer_sees_it_and_cancels_nothing(owner: Person, viewer: Person, scored: UUID) -> None:
    state = visit(ScorecardState, viewer, address(scored), "enter", "load", "cancel")

    assert state.rows
    assert state.error


def test_another_organization_sees_nothing(stranger: Person, scored: UUID) -> None:
    state = visit(ScorecardState, stranger, address(scored), "enter", "load", "watch")

    assert (state.head.id, state.rows) == ("", [])
    assert state.error


def test_the_list_names_baselines_and_scored_adapters(owner: Person, stranger: Person, scored: UUID) -> None:
    path = address(scored).rpartition("/")[0]

    rows = visit(EvaluationsState, owner, path, "enter", "load").rows
    assert sorted((row.name, row.has_verdict) for row in rows) == [("Baseline", False), ("First", True)]
    assert visit(EvaluationsState, stranger, path, "enter", "load").rows == []
