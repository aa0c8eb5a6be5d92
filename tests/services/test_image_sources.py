"""An image is found by the path that a row has for it, on every system that packed it, and nowhere else."""

from __future__ import annotations

import io
import unicodedata
import zipfile
from pathlib import Path

import pytest

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.datasets import Row, RowError
from tensorant_app.services.image_sources import Fault, ImageArchive, ImageFolder
from tensorant_app.services.reading import Reading
from tests.data import chat
from tests.pictures import pack, picture

NAME = "Größe.png"
APART = unicodedata.normalize("NFD", NAME)


def archive(*names: str, rows: str = "rows.jsonl") -> ImageArchive:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as made:
        for name in (rows, *names):
            made.writestr(name, name)
    return ImageArchive(zipfile.ZipFile(body), rows)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("images/a.png", "images/a.png"),
        ("images/a.png", "./images//a.png"),
        ("images/a.png", "images\\a.png"),
        ("images/a.png", "a.png"),
        (NAME, APART),
        (APART, NAME),
    ],
)
def test_an_archive_knows_a_path_however_it_is_written(held: str, asked: str) -> None:
    assert archive(held).read(asked) == held.encode()


def test_paths_count_from_the_root_and_from_the_rows_before_the_folder_of_all_images() -> None:
    found = archive("a.png", "set/a.png", "set/b.png", rows="set/rows.jsonl")

    assert (found.read("a.png"), found.read("b.png"), found.read("set/b.png")) == (b"a.png", b"set/b.png", b"set/b.png")


def test_names_that_a_system_wrote_as_utf8_without_saying_so_are_read_as_utf8() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as made:
        made.writestr("rows.jsonl", "")
        made.writestr("Groesze.png", b"found")
    plain = body.getvalue().replace(b"Groesze.png", "Größe.png".encode())

    assert ImageArchive(zipfile.ZipFile(io.BytesIO(plain)), "rows.jsonl").read(NAME) == b"found"


@pytest.mark.parametrize("asked", ["../a.png", "/etc/passwd", "a/../../b.png", "..", "..\\a.png"])
def test_no_path_leaves_an_archive(asked: str) -> None:
    with pytest.raises(Fault) as fault:
        archive("a.png").read(asked)

    assert fault.value.code is RowCode.IMAGE_OUTSIDE


def test_another_case_is_not_guessed_but_named(tmp_path: Path) -> None:
    (tmp_path / "IMG_1.JPG").write_bytes(b"x")

    for images in (archive("IMG_1.JPG"), ImageFolder(tmp_path)):
        with pytest.raises(Fault, match=r'but "IMG_1\.JPG"; upper and lower case have to be the same') as fault:
            images.read("img_1.jpg")
        assert fault.value.code is RowCode.IMAGE_MISSING


def test_a_folder_knows_a_path_however_its_accents_are_composed(tmp_path: Path) -> None:
    (tmp_path / APART).write_bytes(b"x")

    assert ImageFolder(tmp_path).read(NAME) == b"x"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(picture())
    (folder / "a.png").symlink_to(tmp_path / "secret.png")

    with pytest.raises(Fault) as fault:
        ImageFolder(folder).read("a.png")

    assert fault.value.code is RowCode.IMAGE_OUTSIDE


def test_the_usual_layouts_of_image_sets_are_read(tmp_path: Path) -> None:
    llava = {
        "id": "1",
        "image": "0001.png",
        "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A pier."}],
    }
    table = 'images,prompt,completion\n"[""0001.png"", ""0001.png""]",<image><image>Same?,Yes.\n0001.png,<image>What?,A pier.\n,Hello?,Hi.\n'

    found = [*Reading(pack(tmp_path / "a.zip", [llava], {"images/0001.png": picture()}), with_images=True)]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as made:
        made.writestr("rows.csv", table)
        made.writestr("0001.png", picture())
    cells = [*Reading(tmp_path / "b.zip", with_images=True)]

    assert [type(one) for one in found] == [Row]
    assert [type(one) for one in cells] == [Row, Row, Row]


def test_an_image_of_a_kind_that_is_not_read_is_a_fault_of_its_row_and_no_second_file(tmp_path: Path) -> None:
    rows = [{**chat("<image>?"), "images": ["a.tiff"]}, {**chat("<image>?"), "images": ["b.HEIC"]}]

    found = [*Reading(pack(tmp_path / "a.zip", rows, {"a.tiff": b"II*\0", "b.HEIC": b"ftyp"}), with_images=True)]

    assert [(one.row, one.code) for one in found if isinstance(one, RowError)] == [
        (1, RowCode.IMAGE_BROKEN),
        (2, RowCode.IMAGE_BROKEN),
    ]


def test_a_row_that_is_rejected_anyway_says_what_is_wrong_with_its_images_too(tmp_path: Path) -> None:
    rows = [{**chat("<image>?", ""), "images": ["gone.png"]}, {"messages": "none", "images": ["gone.png"]}]

    found = [*Reading(pack(tmp_path / "a.zip", rows, {"a.png": picture()}), with_images=True)]

    assert [(one.row, one.path, one.code) for one in found if isinstance(one, RowError)] == [
        (1, "messages[1].content", RowCode.EMPTY_REPLY),
        (1, "images[0]", RowCode.IMAGE_MISSING),
        (2, "messages", RowCode.NO_MESSAGES),
    ]


def test_reading_says_how_far_it_is_while_images_are_decoded(tmp_path: Path) -> None:
    rows = [{**chat("<image>?"), "images": [f"{n}.png"]} for n in range(40)]
    path = pack(tmp_path / "a.zip", rows, {f"{n}.png": picture(size=(200 + n, 200)) for n in range(40)})
    heard: list[int] = []

    assert len([*Reading(path, with_images=True, tell=heard.append)]) == 40

    assert len(heard) > 40
    assert heard == sorted(heard)
    assert 0.5 * path.stat().st_size < heard[-1] <= path.stat().st_size


def test_a_broken_image_is_decoded_once_however_many_rows_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**chat(f"<image>{n}?"), "images": ["broken.png"]} for n in range(5)]
    path, asked = pack(tmp_path / "a.zip", rows, {"broken.png": picture()[:50]}), []
    monkeypatch.setattr(
        "tensorant_app.services.image_sources.ImageArchive.read",
        lambda self, name: asked.append(name) or picture()[:50],
    )

    found = [*Reading(path, with_images=True)]

    assert [one.row for one in found if isinstance(one, RowError)] == [1, 2, 3, 4, 5]
    assert asked == ["broken.png"]
