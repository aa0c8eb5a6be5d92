"""Rows with images are edited like others: texts change, images stay or go, and other files bring theirs along."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import NotFound, Refused
from tensorant_app.domain.images import stored_images
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts
from tensorant_app.services import edits, import_rows, version_images, versions
from tensorant_app.services.connections import store
from tensorant_app.services.image_files import IMAGES
from tests import data, factories
from tests.data import chat
from tests.pictures import as_url, pack, picture
from trainer.contract import Split

IN_ROW = as_url(picture(colour="green"))


@pytest.fixture
def vision(caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UUID:
    data.work_inside(monkeypatch)
    return data.make_vision_dataset(caller, tmp_path / "vision")


@pytest.fixture
def import_id(caller: Caller, vision: UUID, tmp_path: Path) -> UUID:
    """Rows 1 to 8 are sound; row 9 has no reply, row 10 an image that is missing beside one that is there."""
    rows: list[dict[str, Any]] = [
        {**chat(f"<image><image>Which of {n}?", "the first"), "images": [f"{n}.png", "shared.png"]} for n in range(8)
    ]
    rows += [{**chat("<image>What is here?", ""), "images": ["late.png"]}]
    parts = [{"type": "image", "image": IN_ROW}, {"type": "text", "text": "<image>And here?"}]
    rows += [{**chat(parts, "a pier"), "images": ["gone.png"]}]  # type: ignore[arg-type]
    files = {f"{n}.png": picture(size=(20 + n, 20)) for n in range(8)}
    files |= {"shared.png": picture(colour="red"), "late.png": picture(colour="black")}
    return data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows, files))


def act(work: Callable[..., None], caller: Caller, import_id: UUID, *more: object) -> None:
    with unit_of_work() as session:
        work(session, caller, import_id, *more)


def text_of(caller: Caller, import_id: UUID, number: int) -> dict[str, Any]:
    with reading() as session:
        found: dict[str, Any] = json.loads(import_rows.show_row(session, caller, import_id, number).text)
    return found


def change(caller: Caller, import_id: UUID, number: int, example: dict[str, Any]) -> list[str]:
    """The images of the row as it is then."""
    act(edits.change_row, caller, import_id, number, json.dumps(example))
    return [*stored_images(text_of(caller, import_id, number))]


def frozen(caller: Caller, import_id: UUID) -> tuple[UUID, dict[int, dict[str, Any]], set[str]]:
    """The version, its rows by number, and the names of its images."""
    version_id = data.draft(caller, import_id, shares=Counts(validation=1, test=1), leave_out_rejected=True)
    view = data.check(caller, version_id)
    assert view.problem is None
    folder = store().fetch(versions.frozen_key(str(data.freeze(caller, version_id).content_sha256)))
    rows = [row for split in Split for row in pq.read_table(folder / f"{split}.parquet").to_pylist()]
    names = {path.name for path in (folder / IMAGES).iterdir()}
    return version_id, {row["row"]: json.loads(row["example"]) for row in rows}, names


def test_a_text_changes_and_the_images_stay(caller: Caller, import_id: UUID) -> None:
    row = text_of(caller, import_id, 1)
    images = [*stored_images(row)]
    row["messages"][0]["content"][-1]["text"] = "Which of them is larger?"

    assert change(caller, import_id, 1, row) == images

    _, rows, names = frozen(caller, import_id)
    assert rows[1] == row
    assert {*images} <= names


def test_an_image_that_is_taken_out_goes_and_the_version_does_not_carry_it(caller: Caller, import_id: UUID) -> None:
    row = text_of(caller, import_id, 2)
    own, shared = stored_images(row)
    del row["messages"][0]["content"][0]

    assert change(caller, import_id, 2, row) == [shared]

    _, rows, names = frozen(caller, import_id)
    assert [*stored_images(rows[2])] == [shared]
    assert own not in names
    act(edits.undo, caller, import_id)
    assert [*stored_images(text_of(caller, import_id, 2))] == [own, shared]


def test_a_rejected_row_is_mended_with_the_images_that_its_file_brought(caller: Caller, import_id: UUID) -> None:
    late = text_of(caller, import_id, 9)
    late["messages"][1]["content"] = "a crane"
    lost = text_of(caller, import_id, 10)
    lost["messages"][0]["content"][1]["text"] = "And here?"
    del lost["images"]

    assert len(change(caller, import_id, 9, late)) == 1
    assert len(change(caller, import_id, 10, lost)) == 1

    _, rows, _ = frozen(caller, import_id)
    assert sorted(rows) == [*range(1, 11)]
    assert [part["type"] for part in rows[9]["messages"][0]["content"]] == ["image", "text"]


@pytest.mark.parametrize(
    ("content", "images", "reason"),
    [
        ([{"type": "image", "image": f"{'0' * 64}.png"}], None, "did not come with this file"),
        ([{"type": "image", "image": "../../secret.png"}], None, "did not come with this file"),
        ([{"type": "image", "image": as_url(picture(colour="pink"))}], None, "an image, which did not come"),
        ("<image>", ["new.png"], r'images\[0\] is "new.png", which did not come'),
        ("<image><image>", ["0.png"], "holds 1 for 2 <image> marks"),
        ("<image>", None, "holds none for 1 <image> marks"),
    ],
)
def test_an_image_that_nobody_looked_at_is_refused_and_nothing_is_changed(
    caller: Caller, import_id: UUID, content: Any, images: object, reason: str
) -> None:
    example = {**chat(content), **({"images": images} if images else {})}

    with pytest.raises(Refused) as refused:
        change(caller, import_id, 1, example)

    assert any(re.search(reason, one) for one in refused.value.reasons)
    assert len([*stored_images(text_of(caller, import_id, 1))]) == 2


def test_rows_of_another_file_bring_their_images_and_can_be_edited_too(
    caller: Caller, vision: UUID, import_id: UUID, tmp_path: Path
) -> None:
    more = [{**chat(f"<image>And {n}?", "yes"), "images": [f"more/{n}.png"]} for n in range(2)]
    files = {f"more/{n}.png": picture(size=(50 + n, 20)) for n in range(2)}
    other = data.read_import(caller, vision, pack(tmp_path / "more.zip", more, files))

    act(edits.append_file, caller, import_id, other)
    last = text_of(caller, import_id, 12)
    last["messages"][0]["content"][1]["text"] = "And the last one?"
    (image,) = change(caller, import_id, 12, last)

    version_id, rows, names = frozen(caller, import_id)
    assert [*stored_images(rows[12])] == [image]
    assert {name for row in rows.values() for name in stored_images(row)} == names
    with reading() as session:
        for found in (
            import_rows.find_thumbnail(session, caller, import_id, image),
            version_images.find_thumbnail(session, caller, version_id, image),
        ):
            assert found.read_bytes()[8:12] == b"WEBP"


def test_a_thumbnail_is_only_for_who_may_see_the_import_and_only_an_image(caller: Caller, import_id: UUID) -> None:
    (name, _) = stored_images(text_of(caller, import_id, 1))

    with reading() as session:
        assert import_rows.find_thumbnail(session, caller, import_id, name).is_file()
        for asked in ("../rows.parquet", "image_names.json", f"{'0' * 64}.png", f"{name}\n"):
            with pytest.raises(NotFound):
                import_rows.find_thumbnail(session, caller, import_id, asked)
        with pytest.raises(NotFound):
            import_rows.find_thumbnail(session, factories.make_caller(name="Other"), import_id, name)
