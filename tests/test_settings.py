"""One data folder, absolute and private, whatever it is started from."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from tensorant_app.settings import Settings, get_settings


def test_everything_lies_in_the_data_folder(data_dir: Path) -> None:
    settings = get_settings()

    assert settings.database_url == f"sqlite:///{data_dir}/tensorant.db"
    folders = (settings.store_dir, settings.volume_dir, settings.bases_dir, settings.log_dir, settings.redis_dir)
    assert all(folder.parent == data_dir and folder.is_dir() for folder in folders)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


def test_a_relative_folder_does_not_move_with_the_shell(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENSORANT_DATA_DIR", "here")

    assert Settings().data_dir == tmp_path / "here"


def test_the_key_and_the_name_are_made_once(data_dir: Path) -> None:
    first = get_settings()
    made = (first.read_secret_keys(), first.installation_id)
    get_settings.cache_clear()

    assert (get_settings().read_secret_keys(), get_settings().installation_id) == made
    assert stat.S_IMODE(first.key_file.stat().st_mode) == 0o600
    assert sorted(path.name for path in data_dir.glob("*.*")) == ["secret.key"]


def test_keys_from_outside_win_and_are_not_shown(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORANT_SECRET_KEYS", "new, old")
    settings = Settings()

    assert settings.read_secret_keys() == ("new", "old")
    assert "old" not in repr(settings)


@pytest.mark.parametrize("prefix", ["postgres://", "postgresql://", "postgresql+psycopg://"])
def test_any_spelling_of_postgresql_uses_our_driver(
    prefix: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORANT_DATABASE_URL", f"{prefix}me@host/name")

    assert Settings().database_url == "postgresql+psycopg://me@host/name"


def test_the_queue_is_the_told_one_or_none(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_settings().broker_url is None
    monkeypatch.setenv("TENSORANT_REDIS_URL", "redis://elsewhere/1")

    assert Settings().broker_url == "redis://elsewhere/1"


def test_settings_do_not_change(data_dir: Path) -> None:
    with pytest.raises(ValidationError):
        get_settings().log_level = "DEBUG"  # type: ignore[misc]


@pytest.mark.parametrize("url", ["https://api.example.org", "http://127.0.0.1:4020", "http://[::1]:4020"])
def test_runpods_address_may_be_another_one(url: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORANT_RUNPOD_API_URL", f"{url}/")

    assert Settings().runpod_api_url == url


@pytest.mark.parametrize(
    "url", ["http://api.example.org", "api.example.org", "https://me:pw@api.example.org", "ftp://x"]
)
@pytest.mark.parametrize("name", ["API", "S3"])
def test_keys_never_travel_in_the_clear(url: str, name: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"TENSORANT_RUNPOD_{name}_URL", url)

    with pytest.raises(ValidationError, match="https://"):
        Settings()


def test_the_trainers_image_is_pinned(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORANT_TRAINER_IMAGE", "registry.example.org/trainer:latest")
    with pytest.raises(ValidationError, match="pin it by digest"):
        Settings()

    monkeypatch.setenv("TENSORANT_TRAINER_IMAGE", "")
    assert Settings().trainer_image is None
