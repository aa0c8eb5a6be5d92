"""A whole installation with a tiny base model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorant_app.db import migrate
from tensorant_app.settings import get_settings
from tests.tiny_base import make_tiny_base
from tests.whole.installation import Installation
from trainer.contract import Base


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_tiny_base(tmp_path_factory.mktemp("bases") / "tiny")


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
