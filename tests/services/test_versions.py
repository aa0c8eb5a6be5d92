"""A version is split, read as its base model reads it, and frozen under a name that only its content decides."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from jobs import broker
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts, Fractions
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import versions
from tensorant_app.services.connections import store
from tensorant_app.services.versions import VersionView
from tensorant_app.settings import get_settings
from tests import data
from tests.data import chat
from tests.plain_base import make_plain_base
from trainer.contract import Base, verify_folder


@pytest.fixture
def import_id(caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
    """Twenty good rows."""
    return data.read_import(caller, dataset_id, data.write_lines(tmp_path / "tickets.jsonl", data.chats(20)))


@pytest.fixture
def version_id(caller: Caller, import_id: UUID) -> UUID:
    """A draft that nobody has checked."""
    return data.draft(caller, import_id)


def rows_of(content_sha256: str | None, split: str) -> list[int]:
    assert content_sha256 is not None
    table = pq.read_table(store().fetch(versions.frozen_key(content_sha256)) / f"{split}.parquet")
    rows: list[int] = table.column("row").to_pylist()
    return rows


class TestCreating:
    def test_rejected_rows_stay_out_only_where_somebody_says_so(
        self, caller: Caller, dataset_id: UUID, tmp_path: Path
    ) -> None:
        path = data.write_lines(tmp_path / "mixed.jsonl", [*data.chats(8), "nonsense"])
        import_id = data.read_import(caller, dataset_id, path)

        with pytest.raises(Invalid) as invalid:
            data.draft(caller, import_id)
        version_id = data.draft(caller, import_id, leave_out_rejected=True)

        assert invalid.value.fields == {"leave_out_rejected": "1 of 9 rows have errors. Mend them, or leave them out."}
        view = data.check(caller, version_id)
        assert view.report is not None
        assert view.report.rows == {"train": 3, "validation": 2, "test": 3}

    def test_an_import_that_failed_has_no_versions(self, caller: Caller, dataset_id: UUID, tmp_path: Path) -> None:
        import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "empty.jsonl", []))
        assert data.show_import(caller, import_id).state is ImportState.FAILED

        with pytest.raises(Conflict, match=r"empty\.jsonl is failed"):
            data.draft(caller, import_id)

    def test_versions_of_a_dataset_are_numbered(self, caller: Caller, import_id: UUID) -> None:
        ids = [data.draft(caller, import_id) for _ in range(3)]

        assert [data.show_version(caller, version_id).number for version_id in ids] == [1, 2, 3]


class TestChecking:
    def test_it_counts_rows_tokens_and_labels(self, caller: Caller, version_id: UUID) -> None:
        view = data.check(caller, version_id)

        assert (view.state, view.problem) == (VersionState.DRAFT, None)
        report = view.report
        assert report is not None
        assert report.rows == {"train": 15, "validation": 2, "test": 3}
        assert report.labels == ("no", "yes")
        assert report.mask.rows == 20
        assert report.mask.tokens == {"train": 60, "validation": 8, "test": 12}
        assert report.mask.longest == 4
        assert report.warnings == ("There are too few test rows to decide the gate: 3, and 50 are needed.",)

    @pytest.mark.usefixtures("real_processes")
    def test_the_real_trainer_reads_every_row_with_the_models_own_template(
        self, caller: Caller, tiny_base: Base, tmp_path: Path
    ) -> None:
        dataset_id = data.make_dataset(caller, tiny_base)
        path = data.write_lines(tmp_path / "tickets.jsonl", data.chats(20))

        view = data.check(caller, data.draft(caller, data.read_import(caller, dataset_id, path)))

        assert view.problem is None
        assert view.report is not None
        assert view.report.mask.rows == 20
        assert view.report.mask.trained_tokens["test"] == sum(
            # The tiny tokenizer has a token for each letter, and one ends the reply.
            len("yes" if row % 2 == 0 else "no") + 1
            for row in _split_rows(versions.draft_key(view.id), "test")
        )
        frozen = data.freeze(caller, view.id)
        assert frozen.state is VersionState.FROZEN

    @pytest.mark.parametrize(
        ("shares", "problem"),
        [
            (Counts(validation=2, test=0), "Test needs at least 1 row."),
            (Counts(validation=0, test=0), "Validation needs at least 1 row. Test needs at least 1 row."),
            (Counts(validation=15, test=15), "Train needs at least 1 row."),
            (Counts(validation=2, test=3, train=100), "The splits ask for 105 rows, but there are 20; ask for fewer."),
            (Fractions(0.98, 0.01, 0.01), "20 rows are too few for these shares: at least 100 are needed"),
            (Fractions(0.8, 0.1, 0.2), "The shares of training, validation and test must be above 0 and add up to 1."),
        ],
    )
    def test_a_split_that_cannot_be_made_is_a_problem_in_a_sentence(
        self, caller: Caller, import_id: UUID, shares: Counts | Fractions, problem: str
    ) -> None:
        version_id = data.draft(caller, import_id, shares=shares)

        view = data.check(caller, version_id)

        assert view.state is VersionState.DRAFT
        assert view.problem is not None
        assert view.problem.startswith(problem)
        assert view.report is None
        with pytest.raises(Conflict, match="not been checked yet"):
            data.freeze(caller, version_id)

    def test_a_base_that_vanished_is_a_problem_in_a_sentence(self, caller: Caller, version_id: UUID) -> None:
        for link in get_settings().bases_dir.iterdir():
            link.unlink()

        view = data.check(caller, version_id)

        assert view.problem is not None
        assert "is not on this computer. Bring its folder back" in view.problem

    @pytest.mark.usefixtures("real_processes")
    def test_a_mask_that_breaks_off_is_a_problem_with_its_last_words(
        self, caller: Caller, dataset_id: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data.use_plain_trainer(tmp_path, monkeypatch)
        rows = [chat(f"CRASH {n}") for n in range(9)]
        import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", rows))

        view = data.check(caller, data.draft(caller, import_id))

        assert view.problem == (
            "The work on the data stopped half-way:\n- The tokenizer could not be read. Mend that, then try again."
        )

    def test_a_problem_goes_when_the_next_check_finds_none(self, caller: Caller, version_id: UUID) -> None:
        (link,) = get_settings().bases_dir.iterdir()
        aside = link.rename(get_settings().data_dir / "aside")
        assert data.check(caller, version_id).problem is not None
        aside.rename(link)

        view = data.check(caller, version_id)

        assert (view.problem, view.report is None) == (None, False)


class TestFreezing:
    def test_frozen_files_match_their_manifest_and_hold_nothing_else(self, caller: Caller, version_id: UUID) -> None:
        data.check(caller, version_id)

        view = data.freeze(caller, version_id)

        assert view.state is VersionState.FROZEN
        assert view.content_sha256 is not None
        manifest = verify_folder(store().fetch(versions.frozen_key(view.content_sha256)))
        assert set(manifest.files) == set(versions.FILES)
        assert manifest.facts["content_sha256"] == view.content_sha256
        assert manifest.facts["tensorant"] == "0.1.0"
        assert (manifest.facts["rows_train"], manifest.facts["seed"]) == (15, 42)
        assert view.report is not None
        assert manifest.facts["tokenizer_sha256"] == view.report.mask.tokenizer_sha256

    def test_no_row_is_lost_and_none_is_on_two_sides(self, caller: Caller, version_id: UUID) -> None:
        data.check(caller, version_id)
        name = data.freeze(caller, version_id).content_sha256

        rows = [row for split in ("train", "validation", "test") for row in rows_of(name, split)]

        assert sorted(rows) == list(range(1, 21))

    def test_the_same_rows_and_seed_give_the_same_name_and_one_folder(
        self, caller: Caller, dataset_id: UUID, version_id: UUID, tmp_path: Path
    ) -> None:
        again = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "again.jsonl", data.chats(20)))
        names = []
        for one in (version_id, data.draft(caller, again)):
            data.check(caller, one)
            names.append(data.freeze(caller, one).content_sha256)

        assert names[0] == names[1]
        assert _frozen_folders() == [names[0]]

    @pytest.mark.parametrize("what", ["seed", "rows", "base"])
    def test_another_seed_row_or_base_gives_another_name(
        self, caller: Caller, dataset_id: UUID, import_id: UUID, version_id: UUID, tmp_path: Path, what: str
    ) -> None:
        other = {
            "seed": lambda: data.draft(caller, import_id, seed=43),
            "rows": lambda: data.draft(caller, self._import(caller, dataset_id, tmp_path, rows=21)),
            "base": lambda: data.draft(caller, self._import(caller, self._other(caller, tmp_path), tmp_path, rows=20)),
        }[what]()
        names = []
        for one in (version_id, other):
            data.check(caller, one)
            names.append(data.freeze(caller, one).content_sha256)

        assert names[0] != names[1]
        assert len(_frozen_folders()) == 2

    @staticmethod
    def _import(caller: Caller, dataset_id: UUID, tmp_path: Path, *, rows: int) -> UUID:
        return data.read_import(caller, dataset_id, data.write_lines(tmp_path / "other.jsonl", data.chats(rows)))

    @staticmethod
    def _other(caller: Caller, tmp_path: Path) -> UUID:
        base = make_plain_base(tmp_path / "other", revision="b" * 40, tokenizer='{"other": 1}')
        return data.make_dataset(caller, base)

    def test_before_a_check_it_is_refused(self, caller: Caller, version_id: UUID) -> None:
        with pytest.raises(Conflict, match=r"This version has not been checked yet\. Check it, then freeze it"):
            data.freeze(caller, version_id)

    def test_a_frozen_version_is_final(self, caller: Caller, version_id: UUID) -> None:
        data.check(caller, version_id)
        data.freeze(caller, version_id)

        for verb in (versions.check_version, versions.freeze_version):
            with pytest.raises(Conflict, match="This version is frozen"), unit_of_work() as session:
                verb(session, caller, version_id)

    def test_secrets_are_listed_and_do_not_hinder_it(self, caller: Caller, dataset_id: UUID, tmp_path: Path) -> None:
        rows = [*data.chats(9), chat("my card is 4242 4242 4242 4242"), chat("key AKIAABCDEFGHIJKLMNOP")]
        import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", rows))
        version_id = data.draft(caller, import_id)

        view = data.check(caller, version_id)

        assert view.report is not None
        assert [(found["row"], found["code"]) for found in view.report.safety] == [
            (10, "payment_card"),
            (11, "aws_key"),
        ]
        assert not any("4242" in json.dumps(found) for found in view.report.safety)
        assert data.freeze(caller, version_id).state is VersionState.FROZEN

    @pytest.mark.parametrize("bad", [1, 25])
    def test_rows_that_the_template_refuses_hinder_it_by_number(
        self, caller: Caller, dataset_id: UUID, tmp_path: Path, bad: int
    ) -> None:
        rows = [*data.chats(9), *(chat(f"UNREADABLE {n}") for n in range(bad))]
        import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", rows))
        version_id = data.draft(caller, import_id)
        data.check(caller, version_id)

        with pytest.raises(Refused) as refused:
            data.freeze(caller, version_id)

        reasons = refused.value.reasons
        assert len(reasons) == min(bad, 21)
        assert any(reason.endswith("row 10: the template refuses it") for reason in reasons) or bad > 20
        assert bad <= 20 or reasons[-1] == "… and 5 more rows."
        assert data.show_version(caller, version_id).state is VersionState.DRAFT


class TestTheSystemText:
    @pytest.fixture
    def refused(self, caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
        """Two of eleven rows have a system text that the template has no role for."""
        rows = [*data.chats(9), chat("SYSTEM says"), chat("SYSTEM says more")]
        return data.draft(caller, data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", rows)))

    def merge(self, caller: Caller, version_id: UUID, *, merges: bool) -> VersionView:
        with unit_of_work() as session:
            versions.check_version(session, caller, version_id, merge_system=merges)
        broker.perform(versions.REACT, str(version_id))
        return data.show_version(caller, version_id)

    def test_rows_refused_for_it_alone_are_counted_and_mended_by_merging(self, caller: Caller, refused: UUID) -> None:
        checked = data.check(caller, refused)
        merged = self.merge(caller, refused, merges=True)

        assert checked.report is not None
        assert merged.report is not None
        assert (checked.report.mask.system_refused, checked.merge_system) == (2, False)
        assert (merged.report.mask.errors, merged.merge_system) == ((), True)
        assert data.freeze(caller, refused).state is VersionState.FROZEN

    def test_checked_again_it_stays_where_it_was_put_until_it_is_put_back(self, caller: Caller, refused: UUID) -> None:
        self.merge(caller, refused, merges=True)

        assert data.check(caller, refused).merge_system is True
        assert self.merge(caller, refused, merges=False).merge_system is False

    def test_the_same_rows_read_otherwise_have_another_name(self, caller: Caller, version_id: UUID) -> None:
        plain = self.merge(caller, version_id, merges=False).report
        merged = self.merge(caller, version_id, merges=True).report

        assert plain is not None
        assert merged is not None
        assert plain.content_sha256 != merged.content_sha256

    def test_a_frozen_version_keeps_it_for_good(self, caller: Caller, version_id: UUID) -> None:
        data.check(caller, version_id)
        data.freeze(caller, version_id)

        with pytest.raises(Conflict):
            self.merge(caller, version_id, merges=True)
        assert data.show_version(caller, version_id).merge_system is False


def test_a_draft_has_no_report_for_jobs(caller: Caller, version_id: UUID) -> None:
    data.check(caller, version_id)

    with reading() as session, pytest.raises(Conflict, match=r"is not frozen\. Freeze it first"):
        versions.report_of(session, version_id)


def _split_rows(key: str, split: str) -> list[int]:
    rows: list[int] = pq.read_table(store().fetch(key) / f"{split}.parquet").column("row").to_pylist()
    return rows


def _frozen_folders() -> list[str]:
    return sorted(path.name for path in store().fetch("versions").iterdir() if path.name != "drafts")
