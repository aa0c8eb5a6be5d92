"""Where Tensorant keeps its things and what it was told by TENSORANT_… variables."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import tempfile
from base64 import urlsafe_b64encode
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from platformdirs import user_data_dir
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_LONGEST_SOCKET_PATH = 100
"""Bytes. The kernel's limit is 107; a little is left for Redis's own temporary names."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")

_PLAIN_POSTGRES = ("postgres://", "postgresql://")


def _default_data_dir() -> Path:
    return Path(user_data_dir("tensorant", appauthor=False))


def _default_database_url(known: dict[str, Any]) -> str:
    folder = known.get("data_dir") or _default_data_dir()
    return f"sqlite:///{folder / 'tensorant.db'}"


class Settings(BaseSettings):
    """Read once per process, never changed; `get_settings()` is the only reader."""

    model_config = SettingsConfigDict(
        env_prefix="TENSORANT_",
        frozen=True,
        extra="ignore",
        validate_default=True,
        use_attribute_docstrings=True,
    )

    data_dir: Path = Field(default_factory=_default_data_dir)
    """Where the embedded database, the store, keys and logs live. Absolute."""
    database_url: str = Field(default_factory=_default_database_url)
    """Unset: SQLite in `data_dir`. PostgreSQL: `postgresql://user:password@host/name`."""
    redis_url: str | None = None
    """Unset: a private Redis is started if one is found. Valkey works as well."""
    trainer_python: Path = Path(sys.executable)
    """The interpreter that has torch. Unset: the console's own."""
    secret_keys: SecretStr | None = None
    """`new,old`: keys that seal secrets. Unset: the key file in `data_dir`."""
    installation: str | None = None
    """Names this installation to the providers. Unset: made at first start, kept in `data_dir`."""
    runpod_api_url: str = "https://api.runpod.io"
    """RunPod's REST API; anything that speaks its version 2 can stand in."""
    runpod_s3_url: str = "https://s3api-{data_center}.runpod.io"
    """Where a network volume's files are read; `{data_center}` becomes the volume's, in lower case."""
    trainer_image: str | None = None
    """The image that rented machines run, pinned: `registry/name@sha256:…`. See docs/machines.md."""
    trainer_bases: str = ""
    """Base models that were built into that image, as `name@revision,name@revision`: for Pods without a network volume."""
    host: str = "127.0.0.1"
    """Where the console listens. Anything but this computer needs an owner and `origin`."""
    port: int = Field(default=8020, ge=1, le=65535)
    """The one port of pages, websocket and API."""
    origin: str | None = None
    """What stands in the browser's address bar, exactly: `https://tensorant.example.org`."""
    trusted_proxy: str | None = None
    """The network address of the TLS proxy in front, whose word on who is calling is believed."""
    max_upload_bytes: int = Field(default=2 * 1024**3, gt=0)
    """The largest file an import takes."""
    worker: str | None = None
    """Names this process on the leases it takes; the supervisor sets it, so that it can give up a dead worker's."""
    log_format: Literal["plain", "json"] = "plain"
    """How a log line looks."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least important lines that are written."""

    @field_validator("runpod_api_url", "runpod_s3_url")
    @classmethod
    def _keeps_keys_to_itself(cls, value: str) -> str:
        """Keys travel there: in the clear only within this computer."""
        scheme, _, rest = value.partition("://")
        host = re.split(r"[/:?#]", rest, maxsplit=1)[0] if not rest.startswith("[") else rest[1:].partition("]")[0]
        if "@" in rest or not (scheme == "https" or (scheme == "http" and host in LOOPBACK)):
            raise ValueError("write it with https://, or http:// on this computer, and without a password")
        return value.rstrip("/")

    @field_validator("trainer_image")
    @classmethod
    def _pinned(cls, value: str | None) -> str | None:
        if value and not re.search(r"@sha256:[0-9a-f]{64}$", value):
            raise ValueError("pin it by digest: registry/name@sha256:…")
        return value or None

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, value: str) -> str:
        for prefix in _PLAIN_POSTGRES:
            if value.startswith(prefix):
                return "postgresql+psycopg://" + value.removeprefix(prefix)
        return value

    @field_validator("origin")
    @classmethod
    def _exact(cls, value: str | None) -> str | None:
        """Scheme, host and port, as browsers send them: lower case, without path and without a port that is implied."""
        if not value:
            return None
        if not re.fullmatch(r"https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?/?", value.lower()):
            raise ValueError("write it as the browser shows it: https://tensorant.example.org")
        scheme, _, rest = value.lower().rstrip("/").partition("://")
        return f"{scheme}://{rest.removesuffix({'http': ':80', 'https': ':443'}[scheme])}"

    @property
    def is_public(self) -> bool:
        """Whether anybody but this computer can reach the console."""
        return self.host not in LOOPBACK

    @property
    def origins(self) -> tuple[str, ...]:
        """The exact addresses under which pages may talk to the console."""
        local = tuple(f"http://{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))
        told = (self.origin,) if self.origin else ()
        return told if self.is_public else (*told, *local)

    @property
    def address(self) -> str:
        """Where a person opens the console."""
        return self.origin or f"http://{'localhost' if self.host == '::1' else self.host}:{self.port}"

    @property
    def uploads_dir(self) -> Path:
        """Files that are still arriving."""
        return self.data_dir / "uploads"

    @property
    def web_dir(self) -> Path:
        """The web process's working folder: nothing of value lies there."""
        return self.data_dir / "web"

    @property
    def store_dir(self) -> Path:
        return self.data_dir / "store"

    @property
    def volume_dir(self) -> Path:
        return self.data_dir / "volume"

    @property
    def bases_dir(self) -> Path:
        return self.data_dir / "bases"

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def key_file(self) -> Path:
        return self.data_dir / "secret.key"

    @property
    def installation_file(self) -> Path:
        return self.data_dir / "installation"

    @property
    def redis_dir(self) -> Path:
        """Holds the socket and the append-only file; a short folder where `data_dir` is deep."""
        folder = self.data_dir / "redis"
        if _fits_a_socket(folder):
            return folder
        name = self._redis_pointer
        return Path(name.read_text("utf-8").strip()) if name.exists() else folder

    @property
    def redis_socket(self) -> Path:
        return self.redis_dir / "redis.sock"

    @property
    def broker_url(self) -> str | None:
        """Redis as told, else the private one while it runs, else None."""
        if self.redis_url:
            return self.redis_url
        return f"unix://{self.redis_socket}" if self.redis_socket.is_socket() else None

    @property
    def installation_id(self) -> str:
        return self.installation or self.installation_file.read_text("ascii").strip()

    @property
    def _redis_pointer(self) -> Path:
        return self.data_dir / "redis-folder"

    def read_secret_keys(self) -> tuple[str, ...]:
        """The newest first; each is 32 bytes in URL-safe base64, as Fernet wants them."""
        text = self.secret_keys.get_secret_value() if self.secret_keys is not None else self.key_file.read_text("ascii")
        return tuple(key.strip() for key in text.replace("\n", ",").split(",") if key.strip())

    def add_secret_key(self) -> bool:
        """A new key in front of the one in the key file; False where the keys come from outside.

        Two keys in the file are a rotation that was interrupted: it goes on with the newer one.
        """
        if self.secret_keys is not None:
            return False
        keys = self.read_secret_keys()
        if len(keys) == 1:
            self._write_keys((_new_key(), *keys))
        return True

    def drop_old_secret_keys(self) -> None:
        """Keep the newest key of the key file alone, once nothing is sealed with the others."""
        if self.secret_keys is None:
            self._write_keys(self.read_secret_keys()[:1])

    def _write_keys(self, keys: tuple[str, ...]) -> None:
        aside = self.key_file.with_name(f"{self.key_file.name}.{uuid4().hex}")
        _write_private(aside, "\n".join(keys))
        aside.replace(self.key_file)

    def ensure_data_dir(self) -> None:
        """Make the folders, the key and the installation's name; safe to call at every start."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.store_dir, self.volume_dir, self.bases_dir, self.log_dir, self.uploads_dir, self.web_dir):
            folder.mkdir(mode=0o700, exist_ok=True)
        _write_once(self.key_file, _new_key())
        _write_once(self.installation_file, uuid4().hex)
        self._ensure_redis_dir()

    def _ensure_redis_dir(self) -> None:
        folder = self.data_dir / "redis"
        if _fits_a_socket(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        elif not _is_private(self.redis_dir) or not _fits_a_socket(self.redis_dir):
            short = tempfile.mkdtemp(prefix="tensorant-", dir="/tmp")
            aside = self._redis_pointer.with_suffix(f".{os.getpid()}")
            aside.write_text(short, "utf-8")
            aside.replace(self._redis_pointer)


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """The settings of this process, its data folder made; `get_settings.cache_clear()` in tests."""
    settings = Settings()
    settings.ensure_data_dir()
    return settings


def _fits_a_socket(folder: Path) -> bool:
    return len(os.fsencode(folder / "redis.sock")) <= _LONGEST_SOCKET_PATH


def _is_private(folder: Path) -> bool:
    """A real folder of ours that nobody else may enter: /tmp is everybody's."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    is_folder = stat.S_ISDIR(found.st_mode)
    return is_folder and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _write_once(path: Path, text: str) -> None:
    """Whole and readable by its owner only, or not at all; the first of several starters wins."""
    if path.exists():
        return
    aside = path.with_name(f"{path.name}.{uuid4().hex}")
    _write_private(aside, text)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()


def _write_private(path: Path, text: str) -> None:
    """On the disk before it is renamed: half a key would open nothing."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _new_key() -> str:
    return urlsafe_b64encode(secrets.token_bytes(32)).decode()
