"""How files reach a machine with no volume, and how it tells of its own: in its environment, and in lines of its log."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

FILES_VARIABLE = "TENSORANT_FILES"
"""Environment variable of such a machine: its input files, packed."""
MOST_PACKED = 90_000
"""Characters. RunPod takes 102,400 bytes for a whole create call; the rest of it needs its share."""
LONGEST_TOLD = 12_000
"""Bytes of one line: container logs cut lines at 16 KiB."""
_MARK = "@tnsr "


@dataclass(frozen=True, slots=True)
class Told:
    """One line that a machine's log tells of one of its output files."""

    name: str
    number: int | None
    """Of a file that grows, the line's number from 0; None: `text` is the whole file."""
    text: str


def pack_files(files: Mapping[str, bytes]) -> str:
    """Files by key as one word of letters, digits, `+`, `/` and `=`; the same files are the same word."""
    keys = sorted(files)
    sizes = json.dumps({key: len(files[key]) for key in keys}).encode()
    plain = b"\n".join([sizes, b"".join(files[key] for key in keys)])
    return base64.b64encode(lzma.compress(plain, preset=9)).decode()


def unpack_files(packed: str, folder: Path) -> None:
    """Write them below the folder. `ValueError` where it is no such word, or a key leads out of the folder."""
    try:
        sizes, _, rest = lzma.decompress(base64.b64decode(packed, validate=True)).partition(b"\n")
        known = json.loads(sizes)
    except (lzma.LZMAError, EOFError, ValueError) as error:
        raise ValueError("the files in the environment cannot be read") from error
    for key, size in known.items():
        parts = PurePosixPath(key).parts
        if not parts or PurePosixPath(key).is_absolute() or ".." in parts:
            raise ValueError(f"{key!r} is no key of a file")
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rest[:size])
        rest = rest[size:]


def tell_line(told: Told) -> str:
    number = "-" if told.number is None else str(told.number)
    return f"{_MARK}{told.name} {number} {told.text}"


def read_told(line: str) -> Told | None:
    """None where the line is anything else that was printed."""
    name, _, rest = line.removeprefix(_MARK).partition(" ")
    number, _, text = rest.partition(" ")
    if not line.startswith(_MARK) or not name or not (number == "-" or number.isdecimal()):
        return None
    return Told(name, None if number == "-" else int(number), text)
