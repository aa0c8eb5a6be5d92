"""Images for tests: of any size, format and history, made on the spot."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

SECRET = "The photographer's own words"


def picture(
    form: str = "PNG", size: tuple[int, int] = (40, 24), *, colour: str = "blue", mode: str = "RGB", **options: Any
) -> bytes:
    """Not of one colour, so that a wrong pixel shows."""
    image, target = Image.new("RGB", size, colour), io.BytesIO()
    image.paste("yellow", (0, 0, size[0] // 3, size[1] // 2))
    (image if mode == "RGB" else _in_mode(image, mode)).save(target, form, **options)
    return target.getvalue()


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    if mode != "I;16":
        return image.convert(mode)
    deep = Image.new(mode, image.size)
    deep.putdata([value * 257 for value in image.convert("L").tobytes()])
    return deep


def photograph(orientation: int = 1) -> bytes:
    """A JPEG that says where it was taken, and by whom."""
    exif = Image.Exif()
    exif[0x010E] = SECRET
    exif[0x0112] = orientation
    exif.get_ifd(0x8825).update({1: "N", 2: (47.0, 22.0, 1.5), 3: "E", 4: (8.0, 32.0, 9.5)})
    return picture("JPEG", exif=exif, comment=SECRET.encode(), quality=90)


def annotated() -> bytes:
    texts = PngInfo()
    texts.add_text("Author", SECRET)
    exif = Image.Exif()
    exif[0x010E] = SECRET
    return picture("PNG", pnginfo=texts, exif=exif)


def huge_png(width: int, height: int) -> bytes:
    """A header that promises more pixels than there are."""
    whole = bytearray(picture())
    whole[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    import zlib

    whole[29:33] = zlib.crc32(whole[12:29]).to_bytes(4, "big")
    return bytes(whole)


def as_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def pack(path: Path, rows: list[dict[str, Any]], images: Mapping[str, bytes], *, folder: str = "") -> Path:
    """A zip of rows and images, in a folder of the archive where one is named."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        for name, data in images.items():
            archive.writestr(f"{folder}{name}", data)
    return path
