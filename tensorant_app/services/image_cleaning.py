"""An image as it is stored: whole, upright, and without what tells where and by whom it was taken."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from PIL import Image

from tensorant_app.domain.file_kinds import IMAGE_BYTES, IMAGE_PIXELS, IMAGE_SIDE

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_THUMBNAIL = (320, 320)
_ORIENTATION = 0x0112
_TURNS: Mapping[int, Image.Transpose] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_QUALITY = 95


class BadImage(Exception):
    """It cannot be decoded or is too large; the message ends a sentence in brackets."""


class Cleaned(NamedTuple):
    data: bytes
    suffix: str
    thumbnail: bytes
    """A small WebP."""


def decode(data: bytes) -> Image.Image:
    """The whole image; its size is looked at before a pixel of it is unpacked."""
    if len(data) > IMAGE_BYTES:
        raise BadImage(f"it has {len(data):,} bytes, more than {IMAGE_BYTES:,}")
    with _decoding():
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
        if image.width * image.height > IMAGE_PIXELS:
            raise BadImage(f"it has {image.width * image.height:,} pixels, more than {IMAGE_PIXELS:,}")
        if max(image.size) > IMAGE_SIDE:
            raise BadImage(f"it is {max(image.size):,} pixels long, more than {IMAGE_SIDE:,}")
        image.load()
    return image


def look(data: bytes) -> None:
    """Every fault that `clean` would find, for a file of which nothing is kept."""
    image = decode(data)
    if image.format == "JPEG":
        _plain_jpeg(data)


def clean(data: bytes) -> Cleaned:
    """Pixels stay as they are, unless the image was turned by a camera, moves, or has 16 bits of gray."""
    image = decode(data)
    with _decoding():
        turn = _TURNS.get(_orientation(image))
        if turn is not None:
            form = "JPEG" if image.format == "JPEG" else "PNG"
            image = _eight_bits(image.transpose(turn))
            stored, suffix = _written(image, form)
        elif image.format == "JPEG":
            stored, suffix = _plain_jpeg(data), "jpg"
        elif image.format == "PNG" and not getattr(image, "is_animated", False) and image.mode not in _DEEP:
            stored, suffix = _plain_png(data), "png"
        else:
            # WebP and GIF may move; a model sees the first picture alone.
            image = _eight_bits(image)
            stored, suffix = _written(image, "PNG")
        return Cleaned(stored, suffix, _thumbnail(image))


@contextmanager
def _decoding() -> Iterator[None]:
    """Whatever a damaged or oversized image makes of its decoder is told as a fault of this one image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BadImage:
        raise
    except MemoryError as error:
        raise BadImage("it needs more memory than an import may take") from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"it has more than {IMAGE_PIXELS:,} pixels") from error
    except Exception as error:  # Pillow raises whatever a damaged file makes of its decoders
        raise BadImage(str(error).split(" <")[0] or type(error).__name__) from error


def _orientation(image: Image.Image) -> int:
    """1 where the file says nothing that can be read."""
    try:
        found = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # as above; damaged notes beside sound pixels are no fault of the image
        return 1
    return found if isinstance(found, int) else 1


_DEEP = ("I", "I;16", "I;16B", "I;16L", "F")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Models take 8 bits; 16 bits of gray that are only cut off would all be white."""
    if image.mode not in _DEEP:
        return image
    return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")


def _written(image: Image.Image, form: str) -> tuple[bytes, str]:
    target = io.BytesIO()
    if form == "JPEG":
        keeps = image.mode in ("L", "RGB")
        profile = image.info.get("icc_profile") if keeps else None
        plain = image if keeps else image.convert("RGB")
        plain.save(target, "JPEG", quality=_QUALITY, subsampling=0, exif=b"", icc_profile=profile)
        return _plain_jpeg(target.getvalue()), "jpg"
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    mode = "RGBA" if has_alpha else "L" if image.mode == "L" else "RGB"
    (image if image.mode == mode else image.convert(mode)).save(target, "PNG", exif=b"")
    return _plain_png(target.getvalue()), "png"


def _thumbnail(image: Image.Image) -> bytes:
    factor, target = max(1, max(image.size) // (2 * max(_THUMBNAIL))), io.BytesIO()
    # Made smaller first: a second copy of a large image would not fit into an import's memory.
    small = image.reduce(factor) if factor > 1 and image.mode in ("L", "LA", "RGB", "RGBA") else image
    small = small.convert("RGBA" if "A" in image.mode or "transparency" in image.info else "RGB")
    small.thumbnail(_THUMBNAIL)
    small.save(target, "WEBP", quality=80, exif=b"", xmp=b"", icc_profile=None)
    return target.getvalue()


_KEPT_CHUNKS = frozenset(
    {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD", b"cICP"}
)


def _plain_png(data: bytes) -> bytes:
    """Without texts, times and EXIF; what follows the end is no part of the image."""
    kept, at = [data[:8]], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if kind in _KEPT_CHUNKS:
            kept.append(data[at:end])
        at = end
        if kind == b"IEND":
            break
    return b"".join(kept)


_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_APP0, _APP2, _APP14, _APP15, _COMMENT, _SCAN, _END = 0xE0, 0xE2, 0xEE, 0xEF, 0xFE, 0xDA, 0xD9


def _plain_jpeg(data: bytes) -> bytes:
    """Without EXIF, XMP, IPTC, comments and pictures inside the picture; colour profile and pixels stay."""
    kept, at = [data[:2]], 2
    while at + 2 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF:
            raise BadImage("its segments are damaged")
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == _END:
            kept.append(data[at : at + 2])
            break
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        end = _scan_end(data, at + 2 + length) if marker == _SCAN else at + 2 + length
        segment = data[at:end]
        is_profile = marker == _APP2 and segment[4:16] == b"ICC_PROFILE\0"
        is_private = _APP0 < marker <= _APP15 and marker != _APP14 and not is_profile
        if not is_private and marker != _COMMENT:
            kept.append(segment)
        at = end
    return b"".join(kept)


def _scan_end(data: bytes, at: int) -> int:
    """Where the next segment begins: a mark that is neither a stuffed byte nor a restart."""
    while (at := data.find(b"\xff", at)) >= 0:
        if at + 1 >= len(data):
            break
        if data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7:
            at += 2
        elif data[at + 1] == 0xFF:
            at += 1
        else:
            return at
    return len(data)
