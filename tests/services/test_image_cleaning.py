"""What is stored of an image: its pixels, upright, and nothing that tells where or by whom it was taken."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tensorant_app.domain.file_kinds import IMAGE_BYTES, IMAGE_SIDE
from tensorant_app.services.image_cleaning import BadImage, clean, decode
from tests.pictures import SECRET, annotated, huge_png, photograph, picture


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def says_nothing(data: bytes) -> bool:
    image = opened(data)
    return not image.getexif() and SECRET.encode() not in data and b"Exif" not in data and b"GPS" not in data


@pytest.mark.parametrize("original", [photograph(), annotated()], ids=["jpeg", "png"])
def test_the_pixels_stay_and_what_else_the_file_says_goes(original: bytes) -> None:
    assert not says_nothing(original)

    cleaned = clean(original)

    assert opened(cleaned.data).tobytes() == opened(original).tobytes()
    assert cleaned.suffix == ("jpg" if original[:2] == b"\xff\xd8" else "png")
    assert says_nothing(cleaned.data)
    assert says_nothing(cleaned.thumbnail)


@pytest.mark.parametrize("options", [{"progressive": True}, {"restart_marker_rows": 1}, {"subsampling": 0}])
def test_every_way_of_writing_a_jpeg_keeps_its_pixels(options: dict[str, object]) -> None:
    original = picture("JPEG", (333, 97), comment=SECRET.encode(), xmp=SECRET.encode(), **options)

    cleaned = clean(original)

    assert opened(cleaned.data).tobytes() == opened(original).tobytes()
    assert SECRET.encode() not in cleaned.data


def test_a_colour_profile_stays() -> None:
    cleaned = clean(picture("JPEG", icc_profile=b"a profile" * 20))

    assert opened(cleaned.data).info["icc_profile"] == b"a profile" * 20


def test_a_photograph_that_was_turned_is_stored_upright() -> None:
    cleaned = clean(photograph(orientation=6))

    image = opened(cleaned.data)
    assert image.size == (24, 40)
    red, green, blue = image.convert("RGB").getpixel((20, 3))  # type: ignore[misc]
    assert (red > 200, green > 200, blue < 80) == (True, True, True)
    assert says_nothing(cleaned.data)


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
def test_what_may_move_is_stored_as_its_first_picture(form: str) -> None:
    first, second = (Image.new("RGB", (20, 20), colour) for colour in ("red", "green"))
    target = io.BytesIO()
    first.save(target, form, save_all=True, append_images=[second], lossless=True)

    cleaned = clean(target.getvalue())

    assert cleaned.suffix == "png"
    assert opened(cleaned.data).getpixel((5, 5)) == (254, 0, 0) or opened(cleaned.data).getpixel((5, 5)) == (255, 0, 0)


def test_a_thumbnail_is_small_and_a_webp() -> None:
    thumbnail = opened(clean(picture("PNG", (2_000, 500))).thumbnail)

    assert (thumbnail.format, thumbnail.size) == ("WEBP", (320, 80))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "cannot identify"),
        (huge_png(60_000, 60_000), "more than 100,000,000 pixels"),
        (huge_png(70_000, 10), f"more than {IMAGE_SIDE:,}"),
        (picture()[:60], "truncated|broken|Truncated"),
        (b"", "cannot identify"),
        (bytes(IMAGE_BYTES + 1), "bytes, more than"),
        (picture("BMP"), "cannot identify"),
    ],
    ids=["svg", "bomb", "long", "cut", "empty", "large", "other"],
)
def test_what_is_no_image_or_too_large_is_refused_before_its_pixels_are_unpacked(data: bytes, reason: str) -> None:
    with pytest.raises(BadImage, match=reason):
        decode(data)


def test_an_image_is_cleaned_to_the_same_bytes_each_time() -> None:
    assert clean(photograph()) == clean(photograph())
