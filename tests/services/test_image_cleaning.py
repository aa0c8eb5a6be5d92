"""What is stored of an image: its pixels, upright, and nothing that tells where or by whom it was taken."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageChops, ImageOps

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


def test_a_thumbnail_is_small_and_a_webp() -> None:
    thumbnail = opened(clean(picture("PNG", (2_000, 500))).thumbnail)

    assert (thumbnail.format, thumbnail.size) == ("WEBP", (320, 80))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "cannot identify"),
        (huge_png(60_000, 60_000), "more than 80,000,000 pixels"),
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


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


def turned(form: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return picture(form, exif=exif, lossless=True) if form == "WEBP" else picture(form, exif=exif)


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_every_way_to_hold_a_camera_is_turned_upright_before_the_note_of_it_goes(form: str, orientation: int) -> None:
    original = turned(form, orientation)

    cleaned = clean(original)

    upright = ImageOps.exif_transpose(opened(original)).convert("RGB")
    stored = opened(cleaned.data).convert("RGB")
    assert stored.size == upright.size == ((40, 24) if orientation < 5 else (24, 40))
    assert max(high for _, high in ImageChops.difference(stored, upright).getextrema()) < (40 if form == "JPEG" else 1)
    assert says_nothing(cleaned.data)


@pytest.mark.parametrize("orientation", [0, 9, 65_535])
def test_an_orientation_that_there_is_not_turns_nothing(orientation: int) -> None:
    original = turned("JPEG", orientation)

    assert opened(clean(original).data).tobytes() == opened(original).tobytes()


def test_sixteen_bits_of_gray_become_eight_and_are_not_cut_off_to_white() -> None:
    deep = Image.new("I;16", (64, 64))
    deep.putdata([n * 16 for n in range(64 * 64)])

    cleaned = clean(encoded(deep, "PNG"))

    stored = opened(cleaned.data)
    assert (stored.mode, stored.getpixel((0, 0)), stored.getpixel((63, 63))) == ("L", 0, 4095 * 16 // 256)
    shown = opened(cleaned.thumbnail).convert("L")
    assert shown.getpixel((0, 0)) < 8 < 200 < shown.getpixel((63, 63))  # type: ignore[operator]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_is_stored_and_shown(mode: str) -> None:
    image = Image.new("L", (50, 50), 90).convert(mode) if mode != "I;16" else Image.new(mode, (50, 50), 90 * 256)

    cleaned = clean(encoded(image, "PNG"))

    seen = opened(cleaned.data).convert("RGB").getpixel((9, 9))
    assert seen == ((0, 0, 0) if mode == "1" else (90, 90, 90))
    assert opened(cleaned.thumbnail).size == (50, 50)


def test_a_palette_and_its_transparent_colour_stay() -> None:
    image = Image.new("P", (20, 20), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])

    cleaned = clean(encoded(image, "PNG", transparency=1))

    assert opened(cleaned.data).convert("RGBA").getpixel((3, 3)) == (255, 0, 0, 0)
    assert opened(cleaned.thumbnail).convert("RGBA").getpixel((3, 3))[3] == 0  # type: ignore[index]


def test_the_inks_of_a_print_stay_as_they_are_and_are_shown_as_colours() -> None:
    original = encoded(Image.new("RGB", (30, 30), "red").convert("CMYK"), "JPEG", quality=95)

    cleaned = clean(original)

    assert opened(cleaned.data).mode == "CMYK"
    red, green, blue = opened(cleaned.thumbnail).convert("RGB").getpixel((9, 9))  # type: ignore[misc]
    assert (red > 200, green < 60, blue < 60) == (True, True, True)


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_what_moves_keeps_its_first_picture_alone(form: str, frames: int) -> None:
    first, *rest = (Image.new("RGB", (20, 20), colour) for colour in ("red", "green", "blue")[:frames])
    options = {"lossless": True} if form == "WEBP" else {}

    cleaned = clean(encoded(first, form, save_all=True, append_images=rest, **options))

    assert cleaned.suffix == "png"
    assert getattr(opened(cleaned.data), "n_frames", 1) == 1
    assert opened(cleaned.data).convert("RGB").getpixel((5, 5)) in ((255, 0, 0), (254, 0, 0))


@pytest.mark.parametrize(
    "original",
    [
        photograph(),
        photograph(6),
        annotated(),
        picture("WEBP"),
        picture("GIF"),
        encoded(Image.new("I;16", (9, 9)), "PNG"),
    ],
    ids=["jpeg", "turned", "png", "webp", "gif", "deep"],
)
def test_what_was_cleaned_once_is_the_same_when_it_is_cleaned_again(original: bytes) -> None:
    once = clean(original)

    assert clean(once.data).data == once.data


@pytest.mark.parametrize(
    "notes", [b"Exif\0\0nonsense", b"Exif\0\0MM\0*\0\0\0\xff", b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01"]
)
def test_damaged_notes_beside_sound_pixels_are_no_fault(notes: bytes) -> None:
    assert says_nothing(clean(picture("JPEG", exif=notes)).data)
