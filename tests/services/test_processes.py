"""How much memory the reading of a file may take."""

from __future__ import annotations

import resource

import pytest

from tensorant_app.domain.file_kinds import MEMORY_LIMIT, MIB
from tensorant_app.services.processes import limited_memory


def test_more_memory_than_is_stated_is_refused_and_afterwards_there_is_as_much_as_before() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_memory():
        bytearray(MEMORY_LIMIT // 2)
        # What this process gives back meanwhile may be taken as well.
        with pytest.raises(MemoryError):
            bytearray(MEMORY_LIMIT + 256 * MIB)

    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    bytearray(MEMORY_LIMIT + 256 * MIB)
