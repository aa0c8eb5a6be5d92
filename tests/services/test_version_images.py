"""A vision project's rows bring their images: stored by content, carried into the frozen version, shown as thumbnails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from jobs import broker
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, NotFound
from tensorant_app.domain.images import stored_images
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts
from tensorant_app.services import data_check, evaluations, import_previews, imports, version_images, versions
from tensorant_app.services.connections import store
from tensorant_app.services.image_files import IMAGES, THUMBNAILS
from tests import data, factories
from tests.data import chat
from tests.pictures import SECRET, as_url, pack, photograph, picture
from trainer.contract import verify_folder


@pytest.fixture
def vision(caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """An empty dataset of a project whose base model reads images."""
    data.work_inside(monkeypatch)
    return data.make_vision_dataset(caller, tmp_path / "vision")


def rows_with_images() -> list[dict[str, Any]]:
    shared = [{**chat(f"<image>\nnumber {n}?", "yes"), "images": ["photos/shared.jpg"]} for n in range(5)]
    own = [{**chat(f"<image> {n}?", "no"), "images": [f"photos/{n}.png"]} for n in range(3)]
    part = [{"type": "image_url", "image_url": {"url": as_url(picture(colour="green"))}}, {"type": "text", "text": "?"}]
    return [*shared, *own, chat(part, "green")]  # type: ignore[arg-type]


def images() -> dict[str, bytes]:
    own = {f"photos/{n}.png": picture(size=(20 + n, 20)) for n in range(3)}
    return {"photos/shared.jpg": photograph(), "photos/unused.png": picture(colour="black"), **own}


def stored_rows(import_id: UUID) -> list[dict[str, Any]]:
    texts = pq.read_table(store().fetch(imports.rows_key(import_id))).column("example").to_pylist()
    return [json.loads(text) for text in texts]


def freeze(caller: Caller, import_id: UUID) -> Path:
    version_id = data.draft(caller, import_id, shares=Counts(validation=2, test=2))
    checked = data.check(caller, version_id)
    assert checked.report is not None, checked.problem
    view = data.freeze(caller, version_id)
    return store().fetch(versions.frozen_key(str(view.content_sha256)))


def test_rows_name_their_images_by_content_and_the_files_say_nothing_of_the_photographer(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    import_id = data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows_with_images(), images()))

    assert data.show_import(caller, import_id).accepted == 9
    rows = stored_rows(import_id)
    names = {name for row in rows for name in stored_images(row)}
    folder = store().fetch(imports.rows_key(import_id)).parent
    assert {path.name for path in (folder / IMAGES).iterdir()} == names
    assert len(names) == 5
    assert len({*stored_images(rows[0])} & {*stored_images(rows[1])}) == 1
    assert not [
        path for path in folder.rglob("*.*") if path.suffix != ".jsonl" and SECRET.encode() in path.read_bytes()
    ]
    assert len([*(folder / THUMBNAILS).iterdir()]) == 5


def test_a_folder_inside_the_archive_is_no_hindrance(caller: Caller, vision: UUID, tmp_path: Path) -> None:
    path = pack(tmp_path / "rows.zip", rows_with_images(), images(), folder="export-2026/")

    assert data.show_import(caller, data.read_import(caller, vision, path)).accepted == 9


def test_a_frozen_version_carries_the_images_of_its_rows_and_no_other(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    rows = rows_with_images()
    first = data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows, images()))
    again = data.read_import(caller, vision, pack(tmp_path / "again.zip", rows, images()))

    folder = freeze(caller, first)

    named = {
        name
        for split in ("train", "validation", "test")
        for text in pq.read_table(folder / f"{split}.parquet").column("example").to_pylist()
        for name in stored_images(json.loads(text))
    }
    assert {path.name for path in (folder / IMAGES).iterdir()} == named
    manifest = verify_folder(folder)
    assert {name for name in manifest.files if name.startswith(f"{IMAGES}/")} == {f"{IMAGES}/{n}" for n in named}
    assert manifest.facts["images"] == len(named)
    assert freeze(caller, again) == folder


def test_the_same_question_about_another_image_is_neither_a_copy_nor_a_contradiction(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    rows = [{**chat("<image> What?", answer), "images": [name]} for answer, name in (("a", "0.png"), ("b", "1.png"))]
    files = {"0.png": picture(size=(20, 20)), "1.png": picture(size=(21, 20))}

    import_id = data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows, files))

    warnings = store().fetch(imports.warnings_key(import_id)).read_text()
    assert '"copy"' not in warnings
    assert '"contradiction"' not in warnings


def test_every_image_that_cannot_be_used_is_named_and_nothing_leaves_the_archive(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    (tmp_path / "secret.png").write_bytes(picture())
    sources = ["gone.png", "../secret.png", "https://images.example.org/a.png", "broken.png", "page.svg", "0.png"]
    rows = [{**chat("<image>?", "yes"), "images": [source]} for source in sources]
    files = {"broken.png": b"\x89PNG\r\n\x1a\n", "0.png": picture()}

    import_id = data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows, files))

    with reading() as session:
        errors = [*imports.read_errors(session, caller, import_id)]
    assert [(error["row"], error["path"], error["code"]) for error in errors] == [
        (1, "images[0]", "image_missing"),
        (2, "images[0]", "image_outside"),
        (3, "images[0]", "image_elsewhere"),
        (4, "images[0]", "image_broken"),
        (5, "images[0]", "image_missing"),
    ]
    assert data.show_import(caller, import_id).accepted == 1


def test_an_archive_whose_images_leave_its_folder_is_refused_whole(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    path = pack(tmp_path / "rows.zip", rows_with_images(), {**images(), "../../slip.png": picture()})

    view = data.show_import(caller, data.read_import(caller, vision, path))

    assert view.state is ImportState.FAILED
    assert "lies outside the archive's folder" in str(view.reason)


def test_a_preview_of_a_vision_projects_upload_shows_rows_with_images(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    no_mark = {**chat("Which?"), "images": ["photos/0.png"]}
    path = pack(tmp_path / "rows.zip", [rows_with_images()[5], rows_with_images()[-1], no_mark], images())
    with unit_of_work() as session:
        import_id = imports.start_import(session, caller, vision, path.name)
    imports.receive_file(import_id, path)
    with unit_of_work() as session:
        imports.await_person(session, caller, import_id)
    broker.perform(imports.REACT, str(import_id))

    with reading() as session:
        preview = import_previews.show_preview(session, caller, import_id)

    assert preview is not None
    named, _, unmarked = preview.rows
    assert named.messages[0]["content"][0] == {"type": "image", "image": "photos/0.png"}
    assert unmarked.faults == (
        "Row 3: images holds 1, and no text says where; write <image> into a question for each.",
    )


def test_a_text_project_reads_no_images_and_says_so(caller: Caller, dataset_id: UUID, tmp_path: Path) -> None:
    rows = [chat("plain?", "yes"), rows_with_images()[-1]]

    import_id = data.read_import(caller, dataset_id, pack(tmp_path / "rows.zip", rows, images()))

    folder = store().fetch(imports.rows_key(import_id)).parent
    assert data.show_import(caller, import_id).accepted == 1
    assert not (folder / IMAGES).exists()
    warnings = [json.loads(line) for line in store().fetch(imports.warnings_key(import_id)).read_text().splitlines()]
    assert [(one["code"], one["row"]) for one in warnings if one["code"] == "images_left_out"] == [
        ("images_left_out", None)
    ]


def test_the_command_reads_a_zip_as_the_import_does(tmp_path: Path) -> None:
    path = pack(tmp_path / "rows.zip", rows_with_images(), images())

    seen, plain = data_check.check_file(path, is_vision=True), data_check.check_file(path)

    assert (seen.rows, seen.accepted, seen.rejected) == (9, 9, 0)
    assert plain.rejected == 1


def test_rows_that_name_images_and_come_without_them_are_refused_with_what_to_do(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    rows = data.write_lines(tmp_path / "rows.jsonl", rows_with_images())

    view = data.show_import(caller, data.read_import(caller, vision, rows))
    report = data_check.check_file(rows, is_vision=True)

    assert view.state is ImportState.FAILED
    assert 'name images, such as "photos/shared.jpg"' in str(view.reason)
    assert "Pack the file of rows and the folder of images into one zip" in str(view.reason)
    assert report.refused is not None
    assert report.refused == {"code": "images_not_sent", "message": view.reason}


def test_that_refusal_comes_before_anybody_maps_a_column(caller: Caller, vision: UUID, tmp_path: Path) -> None:
    path = data.write_lines(tmp_path / "rows.jsonl", rows_with_images())
    with unit_of_work() as session:
        import_id = imports.start_import(session, caller, vision, path.name)
    imports.receive_file(import_id, path)
    with unit_of_work() as session:
        imports.await_person(session, caller, import_id)

    broker.perform(imports.REACT, str(import_id))

    assert "into one zip" in str(data.show_import(caller, import_id).reason)


def test_images_in_the_rows_themselves_need_no_zip(caller: Caller, vision: UUID, tmp_path: Path) -> None:
    path = data.write_lines(tmp_path / "rows.jsonl", rows_with_images()[-1:])

    assert data.show_import(caller, data.read_import(caller, vision, path)).accepted == 1


def test_a_thumbnail_is_found_for_who_may_see_the_version_and_for_nobody_else(
    caller: Caller, vision: UUID, tmp_path: Path
) -> None:
    import_id = data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows_with_images(), images()))
    version_id = data.draft(caller, import_id, shares=Counts(validation=2, test=2))
    (name,) = stored_images(stored_rows(import_id)[0])

    with reading() as session:
        found = version_images.find_thumbnail(session, caller, version_id, name)
        assert found.read_bytes()[8:12] == b"WEBP"
        for asked in ("../rows.parquet", "rows.parquet", f"{'0' * 64}.png", f"{name}/..", f"{name}\n"):
            with pytest.raises(NotFound):
                version_images.find_thumbnail(session, caller, version_id, asked)
        with pytest.raises(NotFound):
            version_images.find_thumbnail(session, factories.make_caller(name="Other"), version_id, name)


def test_a_baseline_on_images_is_refused_in_a_sentence(caller: Caller, vision: UUID, tmp_path: Path) -> None:
    import_id = data.read_import(caller, vision, pack(tmp_path / "rows.zip", rows_with_images(), images()))
    version_id = data.draft(caller, import_id, shares=Counts(validation=2, test=2))
    data.check(caller, version_id)
    data.freeze(caller, version_id)

    with unit_of_work() as session, pytest.raises(Conflict, match="Evaluating on images comes later"):
        evaluations.create_baseline(session, caller, version_id)
