"""A version is deleted while somebody begins to use it: one of the two wins, and the other one is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from sqlmodel import Session, select

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import NotFound, Refused, TensorantError
from tensorant_app.domain.members import Caller
from tensorant_app.services import deletions, drafts, evaluations
from tests import factories
from tests.conftest import EACH_DATABASE, Clock

Act = Callable[[Session], object]
_OVERLAP = 0.3
"""Seconds that the second one is given to run into the first one's transaction."""


@pytest.fixture
def caller(chosen_database: str, clock: Clock) -> Caller:
    return factories.make_caller()


def at_once(first: Act, second: Act) -> list[TensorantError | None]:
    """Both begin before either is committed; how each ended. The first one has done its part before the other begins."""
    has_acted, has_begun = threading.Event(), threading.Event()

    def lead() -> TensorantError | None:
        try:
            with unit_of_work() as session:
                first(session)
                has_acted.set()
                has_begun.wait(10)
                threading.Event().wait(_OVERLAP)
        except TensorantError as error:
            return error
        finally:
            has_acted.set()
        return None

    def follow() -> TensorantError | None:
        has_acted.wait(10)
        has_begun.set()
        try:
            with unit_of_work() as session:
                second(session)
        except TensorantError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        return [ended.result(60) for ended in (pool.submit(lead), pool.submit(follow))]


def make_version(caller: Caller) -> UUID:
    """Frozen, and used by nothing."""
    run_id = factories.make_run(caller)
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, session.get_one(Run, run_id).version_id)
        other = DatasetVersion(**{**version.model_dump(), "id": uuid4(), "number": 2})
        session.add(other)
        return other.id


@EACH_DATABASE
def test_a_baseline_that_began_first_keeps_its_version(caller: Caller) -> None:
    version_id = make_version(caller)

    began, deleted = at_once(
        lambda session: evaluations.create_baseline(session, caller, version_id),
        lambda session: deletions.delete_version(session, caller, version_id),
    )

    assert began is None
    assert isinstance(deleted, Refused)
    assert deleted.reasons == ("An evaluation (baseline) of it is queued.",)


@EACH_DATABASE
def test_nothing_begins_on_a_version_that_was_deleted_first(caller: Caller) -> None:
    version_id = make_version(caller)

    deleted, began = at_once(
        lambda session: deletions.delete_version(session, caller, version_id),
        lambda session: evaluations.create_baseline(session, caller, version_id),
    )

    assert deleted is None
    assert isinstance(began, NotFound)
    assert began.message == f"There is no version {version_id} here."
    with reading() as session:
        assert session.exec(select(Evaluation).where(Evaluation.version_id == version_id)).all() == []


@EACH_DATABASE
@pytest.mark.parametrize("saves_first", [True, False])
def test_a_draft_is_saved_and_its_version_stays_in_any_order(caller: Caller, saves_first: bool) -> None:
    """A draft needs a completed baseline of its version, and that one keeps the version already."""
    run_id = factories.make_run(caller)
    with reading() as session:
        run = session.get_one(Run, run_id)
        typed = {**drafts.show_form(session, caller, run.project_id).typed, "name": "Another"}

    def save(session: Session) -> object:
        return drafts.save_form(session, caller, run.project_id, typed)

    def delete(session: Session) -> object:
        return deletions.delete_version(session, caller, run.version_id)

    ended = at_once(save, delete) if saves_first else at_once(delete, save)[::-1]

    assert ended[0] is None
    assert isinstance(ended[1], Refused)
    with reading() as session:
        names = session.exec(select(Run.name).where(Run.version_id == run.version_id)).all()
        assert "Another" in names
        assert session.get_one(DatasetVersion, run.version_id).deleted_at is None
