"""What a rented machine wrote comes home piece by piece, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from tensorant_app.domain.errors import Transient
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services.connections import home_volume
from tensorant_app.services.journals import bring_home
from trainer.contract import EVENTS, LOG

KEY = "runs/r/out/1"


class Counting(FolderStore):
    """A volume far away that counts the bytes it gives out."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.starts: list[int] = []
        self.is_down = False

    @contextmanager
    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[BinaryIO]:
        if self.is_down:
            raise Transient("The storage does not answer.")
        self.starts.append(start)
        with super().open(key, start, length) as file:
            yield file


@pytest.fixture
def far(tmp_path: Path, sqlite_database: str) -> Counting:
    return Counting(tmp_path / "far")


def at_home(name: str) -> bytes:
    return home_volume().fetch(f"{KEY}/{name}").read_bytes()


def test_only_what_is_new_is_brought(far: Counting) -> None:
    far.put(f"{KEY}/{LOG}", b"one\n")
    bring_home(far, KEY)
    far.put(f"{KEY}/{LOG}", b"one\ntwo\n")
    bring_home(far, KEY)
    bring_home(far, KEY)

    assert at_home(LOG) == b"one\ntwo\n"
    assert far.starts == [0, 4]


def test_a_file_that_began_again_replaces_the_copy(far: Counting) -> None:
    far.put(f"{KEY}/{LOG}", b"a long first life\n")
    bring_home(far, KEY)
    far.put(f"{KEY}/{LOG}", b"again\n")
    bring_home(far, KEY)

    assert at_home(LOG) == b"again\n"


def test_a_storage_that_fails_leaves_what_is_there(far: Counting) -> None:
    far.put(f"{KEY}/{EVENTS}", b"{}\n")
    bring_home(far, KEY)
    far.put(f"{KEY}/{EVENTS}", b"{}\n{}\n")
    far.is_down = True
    with pytest.raises(Transient):
        bring_home(far, KEY)
    kept = at_home(EVENTS)
    far.is_down = False
    bring_home(far, KEY)

    assert (kept, at_home(EVENTS)) == (b"{}\n", b"{}\n{}\n")
