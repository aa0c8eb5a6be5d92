"""The web process before it serves: where it may listen, and what is missing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from tensorant_app import web
from tensorant_app.config import patch_state_js
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.services import links
from tensorant_app.settings import Settings, get_settings
from tests.factories import make_caller
from tests.people import make_person


def told(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"TENSORANT_{name.upper()}", value)
    get_settings.cache_clear()


class TestAPublicAddress:
    def test_is_refused_while_nobody_owns_it(self, sqlite_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        told(monkeypatch, host="0.0.0.0", origin="https://tune.example.org")
        make_caller()  # An owner who has no password yet cannot sign in.

        with pytest.raises(Refused, match="Nobody owns it yet"):
            links.require_safe_address()

    def test_is_refused_without_its_exact_origin(self, sqlite_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        make_person()
        told(monkeypatch, host="192.0.2.1")

        with pytest.raises(Refused, match="TENSORANT_ORIGIN"):
            links.require_safe_address()

    def test_is_allowed_with_both_and_then_only_that_origin(
        self, sqlite_database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_person()
        told(monkeypatch, host="0.0.0.0", origin="https://tune.example.org")

        links.require_safe_address()

        assert get_settings().origins == ("https://tune.example.org",)

    def test_is_not_the_default(self, data_dir: Path) -> None:
        assert get_settings().host == "127.0.0.1"
        assert not get_settings().is_public


@pytest.mark.parametrize(
    ("origin", "kept"),
    [
        ("https://Tune.Example.org/", "https://tune.example.org"),
        ("https://tune.example.org:443", "https://tune.example.org"),
        ("http://10.0.0.1:8020", "http://10.0.0.1:8020"),
        ("http://[::1]:8020", "http://[::1]:8020"),
        ("", None),
    ],
)
def test_an_origin_is_kept_as_browsers_send_it(data_dir: Path, origin: str, kept: str | None) -> None:
    assert Settings(origin=origin).origin == kept


@pytest.mark.parametrize("origin", ["*", "tune.example.org", "https://a/b", "https://*.example.org", "ftp://a", "null"])
def test_an_origin_that_is_not_exact_is_refused(data_dir: Path, origin: str) -> None:
    with pytest.raises(ValidationError):
        Settings(origin=origin)


def test_a_port_in_use_is_one_sentence(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        told(monkeypatch, port=str(other.getsockname()[1]))

        with pytest.raises(
            Conflict, match=r"cannot listen on 127\.0\.0\.1:\d+ \(Address already in use\)\. Choose another"
        ):
            web.bind(get_settings())


def test_pages_that_are_not_built_are_one_sentence(data_dir: Path) -> None:
    with pytest.raises(Conflict, match="make frontend"):
        web.require_frontend(data_dir)


def test_a_reflex_whose_socket_code_has_changed_fails_the_build() -> None:
    with pytest.raises(RuntimeError, match=r"state\.js has changed"):
        patch_state_js("export const something = else;")
