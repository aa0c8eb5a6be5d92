"""Data: datasets, imports with their errors, versions, and the rows of a frozen one."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlmodel import Session, col, select

from tensorant_app.db.datasets import DatasetVersion, Import
from tensorant_app.db.projects import Project
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.leakage import Keep
from tensorant_app.domain.splits import Counts, Fractions
from tensorant_app.domain.versions import VersionState
from tensorant_app.pages.data import DataState
from tensorant_app.pages.import_findings import FindingsState
from tensorant_app.pages.import_mapper import MapperState
from tensorant_app.pages.imports import ImportPageState
from tensorant_app.pages.rows import RowsState
from tensorant_app.pages.split_form import read_rest, read_seed, read_shares
from tensorant_app.pages.tokens import TokensState
from tensorant_app.pages.versions import VersionPageState
from tensorant_app.services.connections import store
from tensorant_app.services.examples import Stretch, stretches
from tensorant_app.services.imports import errors_key, preview_key, source_key, warnings_key
from tensorant_app.services.versions import frozen_key
from tests.factories import REPORT, make_project, make_version
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, run
from trainer.contract import MASK, Split

SHARES = {"kind": "fractions", "train": "0.8", "validation": "0.1", "test": "0.1", "seed": "7"}


@pytest.fixture
def project_id(owner: Person) -> UUID:
    with unit_of_work() as session:
        return make_project(session, owner.organization_id).id


def make_import(owner: Person, project_id: UUID, *, rejected: int) -> str:
    """A ready file of ten rows; its page's address."""
    with unit_of_work() as session:
        version = make_version(session, session.get_one(Project, project_id))
        row = Import(
            id=uuid4(),
            created_at=now_of(session),
            organization_id=owner.organization_id,
            dataset_id=version.dataset_id,
            file_name="tickets.jsonl",
            state=ImportState.READY,
            rows=10,
            accepted=10 - rejected,
            rejected=rejected,
        )
        session.add(row)
    errors = [
        {"row": n, "line": n, "path": "messages", "code": "no_reply" if n > 1 else "not_json", "message": f"Row {n}."}
        for n in range(1, rejected + 1)
    ]
    store().put(errors_key(row.id), "".join(json.dumps(error) + "\n" for error in errors).encode())
    return f"/projects/{project_id}/data/imports/{row.id}"


class TestData:
    def test_a_project_without_data_asks_for_a_dataset_and_makes_it(self, owner: Person, project_id: UUID) -> None:
        state = visit(DataState, owner, f"/projects/{project_id}/data", "load")
        assert (state.dataset, state.is_loading) == ("", False)

        run(call(state, "create", {"dataset-name": " tickets "}))
        run(call(state, "load"))

        assert (state.error, state.dataset_name, state.import_count) == ("", "tickets", "0")

    def test_it_lists_imports_and_versions_of_the_dataset(self, owner: Person, project_id: UUID) -> None:
        make_import(owner, project_id, rejected=2)

        state = visit(DataState, owner, f"/projects/{project_id}/data", "load")

        assert {(row.ready, row.errors) for row in state.imports} == {("8", "2"), ("", "")}
        assert [(row.name, row.state, row.rows) for row in state.versions] == [("v1", "frozen", "150")]
        assert state.newest == "v1 frozen, 150 rows"

    def test_a_viewer_sees_it_and_makes_nothing(self, viewer: Person, owner: Person, project_id: UUID) -> None:
        state = visit(DataState, viewer, f"/projects/{project_id}/data", "load")
        assert state.error == ""

        run(call(state, "create", {"dataset-name": "x"}))

        assert "viewer" in state.error

    def test_another_organization_sees_nothing(self, stranger: Person, owner: Person, project_id: UUID) -> None:
        make_import(owner, project_id, rejected=2)

        state = visit(DataState, stranger, f"/projects/{project_id}/data", "load")

        assert state.error
        assert (state.imports, state.versions, state.dataset) == ([], [], "")


class TestImport:
    def test_errors_stand_by_kind_and_the_address_chooses_one(self, owner: Person, project_id: UUID) -> None:
        path = make_import(owner, project_id, rejected=3)

        state = visit(FindingsState, owner, path, "load")
        assert [(group.title, group.rows, group.is_open) for group in state.errors] == [
            ("No assistant reply", "2", True),
            ("Not valid JSON", "1", False),
        ]
        assert [fault.row for fault in state.faults] == ["2", "3"]

        state = visit(FindingsState, owner, f"{path}?kind=not_json", "load")
        assert (state.kind, [fault.message for fault in state.faults]) == ("Not valid JSON", ["Row 1."])

    def test_warnings_stand_by_kind_beside_the_errors(self, owner: Person, project_id: UUID) -> None:
        path = make_import(owner, project_id, rejected=1)
        notices = [{"row": None, "line": None, "path": "x", "code": "column_left_out", "message": "The column x …"}]
        notices += [{"row": n, "line": n, "path": "", "code": "html", "message": f"Row {n}: HTML."} for n in (4, 4, 9)]
        lines = "".join(json.dumps(notice) + "\n" for notice in notices)
        store().put(warnings_key(UUID(path.rpartition("/")[2])), lines.encode())

        state = visit(FindingsState, owner, f"{path}?kind=html", "load")
        assert [(group.title, group.rows) for group in state.warnings] == [
            ("HTML in the text", "2"),
            ("A column that is not kept", "1"),
        ]
        assert ([fault.row for fault in state.faults], state.warned) == (["4", "4", "9"], "4 places")

        state = visit(FindingsState, owner, f"{path}?kind=column_left_out", "load")
        assert [(fault.row, fault.message) for fault in state.faults] == [("file", "The column x …")]

    def test_rows_with_errors_stay_out_only_where_one_says_so(self, owner: Person, project_id: UUID) -> None:
        state = visit(ImportPageState, owner, make_import(owner, project_id, rejected=3), "load")

        run(call(state, "make_version", SHARES))
        assert state.fields == {"leave_out_rejected": "3 of 10 rows have errors. Mend them, or leave them out."}

        run(call(state, "make_version", SHARES | {"leave_out_rejected": "on"}))
        assert state.error == ""
        with reading() as session:
            made = session.get_one(DatasetVersion, UUID(visit_newest(session)))
            assert (made.split["seed"], made.state) == (7, VersionState.DRAFT)

    def test_a_viewer_makes_no_version(self, viewer: Person, owner: Person, project_id: UUID) -> None:
        state = visit(ImportPageState, viewer, make_import(owner, project_id, rejected=0), "load")

        run(call(state, "make_version", SHARES))

        assert "viewer" in state.error


def visit_newest(session: Session) -> str:
    query = select(DatasetVersion.id).order_by(col(DatasetVersion.number).desc())
    return str(session.exec(query).first())


class TestMapper:
    """A table of unknown columns waits for a person."""

    @pytest.fixture
    def path(self, owner: Person, project_id: UUID) -> str:
        path = make_import(owner, project_id, rejected=0)
        import_id = UUID(path.rpartition("/")[2])
        rows = [[1, 2, {"frage": "Größe?", "antwort": "Zwei"}], [2, 3, {"frage": "Alter?", "antwort": ""}]]
        found = {"kind": "csv", "wrapping": "gzip", "columns": ["frage", "antwort"], "mapping": None}
        store().put(preview_key(import_id), json.dumps({**found, "question": "Say which.", "records": rows}).encode())
        store().put(source_key(import_id), b"frage,antwort")
        with unit_of_work() as session:
            row = session.get_one(Import, import_id)
            row.state, row.arrived, row.previewed = ImportState.RECEIVING, True, True
        return path

    def test_it_says_what_the_file_is_and_asks_which_column_holds_what(self, owner: Person, path: str) -> None:
        state = visit(MapperState, owner, path, "load")

        assert (state.kind, state.question) == ("comma-separated table, in gzip", "Say which.")
        assert [column.value for column in state.columns] == ["frage", "antwort"]
        assert (state.layout, state.samples, state.is_complete) == ("", [], False)

    def test_the_first_rows_change_with_every_choice_and_name_what_is_wrong(self, owner: Person, path: str) -> None:
        state = visit(MapperState, owner, path, "load")

        run(call(state, "choose_layout", "prompt_completion"))
        assert [one.wrong for one in state.fields_of_layout][:2] == [
            "Choose the column that holds the prompt.",
            "Choose the column that holds the completion.",
        ]
        run(call(state, "choose_column", "prompt", "frage"))
        run(call(state, "choose_column", "completion", "frage"))
        assert state.fields_of_layout[0].wrong == "The column frage is chosen twice; each may fill one field."

        run(call(state, "choose_column", "completion", "antwort"))
        assert (state.error, state.is_complete) == ("", True)
        assert [bubble.words for bubble in state.samples[0].chat] == ["Größe?", "Zwei"]
        assert state.samples[1].faults == [
            "Row 2 (line 3): antwort is empty, and nothing is called; write the reply to learn."
        ]

    def test_the_import_starts_when_the_person_says_so_and_only_once(self, owner: Person, path: str) -> None:
        state = visit(MapperState, owner, path, "load")
        run(call(state, "choose_layout", "prompt_completion"))
        run(call(state, "start"))
        assert state.fields["prompt"] == "Choose the column that holds the prompt."

        run(call(state, "choose_column", "prompt", "frage"))
        run(call(state, "choose_column", "completion", "antwort"))
        run(call(state, "start"))

        with reading() as session:
            row = session.get_one(Import, UUID(path.rpartition("/")[2]))
            assert (row.state, row.mapping) == (
                ImportState.CHECKING,
                {"layout": "prompt_completion", "columns": {"prompt": "frage", "completion": "antwort"}},
            )
        run(call(state, "start"))
        assert "does not wait for this any more" in state.error

    def test_a_viewer_sees_it_and_starts_nothing(self, viewer: Person, path: str) -> None:
        state = visit(MapperState, viewer, path, "load")
        assert state.is_there

        run(call(state, "start"))

        assert "viewer" in state.error


class TestVersion:
    def test_a_clean_draft_is_frozen_and_one_with_refused_rows_is_not(self, owner: Person, project_id: UUID) -> None:

        bad = REPORT["mask"] | {"errors": [{"split": "train", "row": 4, "message": "Too long."}]}
        with unit_of_work() as session:
            project = session.get_one(Project, project_id)
            clean = make_version(session, project, state=VersionState.DRAFT).id
            refused = make_version(session, project, state=VersionState.DRAFT, mask=bad).id
        place = f"/projects/{project_id}/data/versions"

        state = visit(VersionPageState, owner, f"{place}/{clean}", "load", "freeze")
        assert (state.error, state.facts.state) == ("", "freezing")

        state = visit(VersionPageState, owner, f"{place}/{refused}", "load", "freeze")
        assert state.reasons == ["train row 4: Too long."]
        assert [row.message for row in state.refused] == ["Too long."]
        assert state.findings[0].verdict == "refuse"


class TestTokens:
    def test_lengths_are_drawn_and_rows_beyond_a_context_length_are_named(
        self, owner: Person, project_id: UUID
    ) -> None:
        with unit_of_work() as session:
            version = make_version(session, session.get_one(Project, project_id))
        numbers = {"row": [1, 2, 3], "tokens": [100, 140, 3_000], "trained_tokens": [10, 20, 300]}
        _put_mask(version, {"split": ["train"] * 3, **numbers, "longest": numbers["tokens"]})
        path = f"/projects/{project_id}/data/versions/{version.id}"

        state = visit(TokensState, owner, path, "load")
        assert state.per_epoch == "One epoch reads 3,240 tokens and learns 330 of them (10.2 %)."
        assert state.words == "Half of the rows have 140 or fewer, the longest has 3,000."
        assert [(row.row, row.split, row.message) for row in state.long_rows] == [("3", "Train", "3,000 tokens")]
        assert state.beyond.startswith("1 row is longer.")
        assert sum(state.figure["data"][0]["y"]) == 3

        run(call(state, "ask", "4,096"))
        assert (state.beyond, state.long_rows) == ("Every row fits into 4,096 tokens.", [])

        run(call(state, "ask", "four"))
        assert state.fields == {"context_length": "Context length must be between 128 and 131,072."}
        assert state.beyond == "Every row fits into 4,096 tokens."

    def test_a_row_with_images_shows_their_thumbnails(self, owner: Person, project_id: UUID) -> None:
        with unit_of_work() as session:
            version = make_version(session, session.get_one(Project, project_id))
        _put_mask(
            version, {"split": ["train"], "row": [1], "tokens": [9], "trained_tokens": [1], "text": [""]} | _NOTHING
        )
        name = f"{'1' * 64}.png"
        content = [{"type": "image", "image": name}, {"type": "text", "text": "Which?"}]
        example = json.dumps({"messages": [{"role": "user", "content": content}]})
        file = io.BytesIO()
        pq.write_table(pa.table({"row": [1], "example": [example]}), file)
        store().put(f"{frozen_key(str(version.content_sha256))}/train.parquet", file.getvalue())

        state = visit(RowsState, owner, f"/projects/{project_id}/data/versions/{version.id}", "load")

        assert state.error == ""
        assert state.chat[0].pictures == [f"/api/versions/{version.id}/images/{name}"]
        assert state.chat[0].words.strip() == "Which?"


_NOTHING: dict[str, list[Any]] = {"spans": ["[]"], "error": [None]}


def _put_mask(version: DatasetVersion, columns: dict[str, list[Any]]) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    store().put(f"{frozen_key(str(version.content_sha256))}/{MASK}", file.getvalue())


class TestSplitForm:
    def test_shares_and_counts_are_read_as_typed(self) -> None:
        assert read_shares(SHARES) == Fractions(0.8, 0.1, 0.1)
        counts = {"kind": "counts", "train": "", "validation": "1,000", "test": "300"}
        assert read_shares(counts) == Counts(validation=1000, test=300, train=None)
        assert read_seed(SHARES) == 7

    def test_a_split_that_is_a_file_needs_no_share(self) -> None:
        form = {**SHARES, "train": "0.9", "test": "", "test_file": str(UUID(int=7)), "keep": "near", "group_by": " id "}

        assert read_shares(form) == Fractions(0.9, 0.1, 0.0)
        assert read_shares({**form, "kind": "counts", "train": "", "validation": "5"}) == Counts(5, 0, None)
        assert read_rest(form) == {
            "keep": Keep.NEAR,
            "group_by": "id",
            "stratify_by": "",
            "files": {Split.TEST: UUID(int=7)},
        }
        assert read_rest(SHARES)["keep"] is Keep.BEGINNINGS

    def test_a_browser_tells_fields_that_are_not_shown_as_null(self) -> None:
        form = {**SHARES, "validation_file": None, "test_file": None}

        assert read_rest(form)["files"] == {}
        assert read_shares(form) == Fractions(0.8, 0.1, 0.1)

    @pytest.mark.parametrize(("typed", "field"), [({"keep": "all"}, "keep"), ({"test_file": "x"}, "test_file")])
    def test_what_stands_in_no_list_is_refused(self, typed: dict[str, str], field: str) -> None:
        with pytest.raises(Invalid) as refused:
            read_rest(SHARES | typed)
        assert set(refused.value.fields) == {field}

    @pytest.mark.parametrize(
        ("typed", "wrong"),
        [
            ({"train": "0.9"}, {"train"}),
            ({"test": "x"}, {"test"}),
            ({"kind": "counts"}, {"train", "validation", "test"}),
        ],
    )
    def test_every_wrong_field_is_named(self, typed: dict[str, str], wrong: set[str]) -> None:
        with pytest.raises(Invalid) as refused:
            read_shares(SHARES | typed)
        assert set(refused.value.fields) == wrong


def test_text_is_cut_where_training_begins_and_ends() -> None:
    assert stretches("ab cd ef", [[3, 5], [6, 8]]) == [
        Stretch("ab ", False),
        Stretch("cd", True),
        Stretch(" ", False),
        Stretch("ef", True),
    ]
    assert stretches("", []) == []
