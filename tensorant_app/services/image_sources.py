"""Where the images that rows name are looked for: one folder, one archive, or nowhere; nothing is ever fetched."""

from __future__ import annotations

import posixpath
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.file_kinds import IMAGE_BYTES, is_image_name
from tensorant_app.domain.images import show_path

_UTF8_NAME = 0x800


class Fault(Exception):
    """What is wrong with one image: its code, and the end of the sentence."""

    def __init__(self, code: RowCode, end: str) -> None:
        super().__init__(end)
        self.code, self.end = code, end


class Images(Protocol):
    """Where images lie that rows name by a path."""

    taken: int
    """Bytes of what holds them that were read so far."""

    def read(self, name: str) -> bytes:
        """Raises `Fault`."""
        ...


class Names:
    """Paths of files, found again however their accents are composed; other letters are never guessed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: dict[str, str] = {}
        for path in paths:
            self._paths.setdefault(_composed(path), path)
        self._folded: dict[str, str] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths.values())

    def find(self, name: str) -> str | None:
        return self._paths.get(_composed(name))

    def like(self, name: str) -> str | None:
        """One that differs in upper and lower case alone."""
        if self._folded is None:
            self._folded = {path.casefold(): held for path, held in self._paths.items()}
        return self._folded.get(_composed(name).casefold())


class ImageFolder:
    """A folder of this computer."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.taken = folder.resolve(), 0
        self._listed: dict[Path, Names] = {}

    def read(self, name: str) -> bytes:
        try:
            file = self._find(name)
            if not file.is_relative_to(self._folder):
                raise Fault(RowCode.IMAGE_OUTSIDE, f"is {show_path(name)}, which leaves the folder of images.")
            if file.is_file():
                with file.open("rb") as opened:
                    return opened.read(IMAGE_BYTES + 1)
        except (OSError, ValueError):
            raise _missing(name, "the folder of images has", None) from None
        raise _missing(name, "the folder of images has", self._names(file.parent).like(file.name))

    def _find(self, name: str) -> Path:
        """Links are followed, so that one that leads outside is seen."""
        file = (self._folder / name).resolve()
        if file.is_file() or not file.is_relative_to(self._folder):
            return file
        other = self._names(file.parent).find(file.name)
        return (file.parent / other).resolve() if other else file

    def _names(self, folder: Path) -> Names:
        if folder not in self._listed:
            inside = folder.is_relative_to(self._folder) and folder.is_dir()
            self._listed[folder] = Names(path.name for path in folder.iterdir()) if inside else Names(())
        return self._listed[folder]


class ImageArchive:
    """A zip beside whose rows the images lie.

    Paths count from the archive's root, from the file of rows, or from the one folder that holds every image.
    """

    def __init__(self, archive: zipfile.ZipFile, member: str) -> None:
        self._archive, self.taken = archive, 0
        self._members = {_name_of(info): info for info in archive.infolist() if not info.is_dir()}
        self._names = Names(self._members)
        folders = {posixpath.dirname(name) for name in self._members if is_image_name(name)}
        self._bases = ["", posixpath.dirname(member), *(folders if len(folders) == 1 else ())]

    def read(self, name: str) -> bytes:
        plain = posixpath.normpath(name.replace("\\", "/"))
        if plain.startswith(("../", "/")) or plain == "..":
            raise Fault(RowCode.IMAGE_OUTSIDE, f"is {show_path(name)}, which leaves the archive.")
        places = [posixpath.join(base, plain) for base in self._bases]
        found = next((held for place in places if (held := self._names.find(place))), None)
        if found is None:
            alike = next((held for place in places if (held := self._names.like(place))), None)
            raise _missing(name, "the archive holds", alike)
        info = self._members[found]
        try:
            with self._archive.open(info) as opened:
                data = opened.read(IMAGE_BYTES + 1)
        except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise Fault(
                RowCode.IMAGE_BROKEN, f"is {show_path(name)}, which the archive holds damaged ({error})."
            ) from error
        self.taken += info.compress_size
        return data


class NoImages:
    """Rows bring their images along, or have none."""

    taken = 0

    def read(self, name: str) -> bytes:
        raise Fault(
            RowCode.IMAGE_MISSING, f"is {show_path(name)}, and no images came with the rows; pack both into one zip."
        )


def _missing(name: str, held: str, alike: str | None) -> Fault:
    if alike == name:
        return Fault(RowCode.IMAGE_MISSING, f"is {show_path(name)}, which is a folder and no image.")
    hint = f" but {show_path(alike)}; upper and lower case have to be the same" if alike else ""
    if not alike and "\\" in name:
        hint = "; folders are divided by / and not by a backslash"
    return Fault(RowCode.IMAGE_MISSING, f"is {show_path(name)}, and {held} no such file{hint}.")


def _name_of(info: zipfile.ZipInfo) -> str:
    """Some systems write UTF-8 into an archive and do not say so; `zipfile` then reads it as the letters of a DOS."""
    if info.flag_bits & _UTF8_NAME:
        return info.filename
    try:
        return info.filename.encode("cp437").decode()
    except UnicodeError:
        return info.filename


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
