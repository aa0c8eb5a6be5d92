"""A whole installation with a tiny base model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorant_app.db import migrate
from tensorant_app.settings import get_settings
from tests.ports import free_port
from tests.whole.installation import Installation
from trainer.contract import Base


@pytest.fixture
def data_dir(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an installation that may run beside another one."""
    monkeypatch.setenv("TENSORANT_PORT", str(free_port()))
    get_settings.cache_clear()
    return data_dir


@pytest.fixture
def installation(data_dir: Path, tiny_base: Base) -> Iterator[Installation]:
    """Up, empty, and knowing the tiny base."""
    settings = get_settings()
    (settings.bases_dir / "tiny").symlink_to(tiny_base.folder)
    migrate.upgrade()
    found = Installation(settings)
    found.up()
    yield found
    found.down()
