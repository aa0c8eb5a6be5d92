"""Images stand where a row's author put them: as marks with a list, or as parts of a message."""

from __future__ import annotations

from typing import Any

from tensorant_app.domain.images import count_marks, given_images, stored_images, with_stored_images


def example(content: object, **more: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "ok"}], **more}


def stored(row: dict[str, Any]) -> object:
    return with_stored_images(row, lambda source: f"stored-{source}")["messages"][0]["content"]  # type: ignore[index]


def test_marks_in_a_text_become_parts_in_their_place() -> None:
    row = example("<image>\nWhich is <image>?", images=["a.png", "b.png"])

    assert count_marks(row) == 2
    assert [(one.path, one.source) for one in given_images(row)] == [("images[0]", "a.png"), ("images[1]", "b.png")]
    assert stored(row) == [
        {"type": "image", "image": "stored-a.png"},
        {"type": "text", "text": "\nWhich is "},
        {"type": "image", "image": "stored-b.png"},
        {"type": "text", "text": "?"},
    ]
    assert "images" not in with_stored_images(row, str)


def test_parts_hold_their_images_or_take_them_from_the_list_in_order() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "one.png"}}, {"type": "image"}, {"type": "text", "text": "?"}]
    row = example(parts, images="two.png")

    assert [(one.path, one.source) for one in given_images(row)] == [
        ("messages[0].content[0]", "one.png"),
        ("images", "two.png"),
    ]
    assert stored(row) == [
        {"type": "image", "image": "stored-one.png"},
        {"type": "image", "image": "stored-two.png"},
        {"type": "text", "text": "?"},
    ]


def test_a_row_without_images_stays_as_it_is_and_other_keys_are_kept() -> None:
    row = example("What?", note="mine")

    assert with_stored_images(row, str) == row


def test_the_names_of_a_stored_row_are_found_in_order() -> None:
    row = with_stored_images(example("<image><image>", images=["b.png", "a.png"]), str)

    assert [*stored_images(row)] == ["b.png", "a.png"]
