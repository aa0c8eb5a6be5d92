"""The websocket: only for those who are signed in, only from our own pages, and no longer than the session."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from tensorant_app.api import guard
from tensorant_app.services import sessions
from tests.people import Person, make_person, sign_in
from tests.web.conftest import ORIGIN


@pytest.fixture
def person(client: TestClient) -> Person:
    return make_person()


def connect(client: TestClient, cookies: str, origin: str | None = ORIGIN, host: str = "127.0.0.1:8020") -> str:
    """What the application behind the guard got as the tab's token."""
    client.headers.pop("origin", None)
    headers = {"cookie": cookies, "host": host} | ({"origin": origin} if origin else {})
    with client.websocket_connect("/_event?token=tab&EIO=4", headers=headers) as socket:
        return socket.receive_text()


def test_opens_for_a_session(client: TestClient, person: Person) -> None:
    assert connect(client, person.cookies).startswith("tab")


@pytest.mark.parametrize("cookies", ["", "tensorant-1=x"])
def test_nobody_gets_nothing(client: TestClient, person: Person, cookies: str) -> None:
    with pytest.raises(WebSocketDisconnect):
        connect(client, cookies)


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:8021", "http://localhost", "null", None])
def test_another_site_gets_nothing_with_our_cookie(client: TestClient, person: Person, origin: str | None) -> None:
    with pytest.raises(WebSocketDisconnect):
        connect(client, person.cookies, origin)


def test_another_name_gets_nothing(client: TestClient, person: Person) -> None:
    with pytest.raises(WebSocketDisconnect):
        connect(client, person.cookies, host="evil.example:8020")


def test_ends_with_the_session(client: TestClient, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LOOK_AGAIN_SECONDS", 0.05)
    headers = {"cookie": person.cookies, "origin": ORIGIN, "host": "127.0.0.1:8020"}
    with client.websocket_connect("/_event?token=tab", headers=headers) as socket:
        socket.receive_text()

        sessions.sign_out_everywhere(person.cookies)

        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_text()
    assert ended.value.code == 4401


def test_the_next_person_in_the_same_tab_does_not_find_the_state_of_the_one_before(
    client: TestClient, person: Person
) -> None:
    first, again = connect(client, person.cookies), connect(client, person.cookies)
    other = connect(client, sign_in(make_person().email))

    assert first == again
    assert first != other
