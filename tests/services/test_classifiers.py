"""An organization's classifier: what it is sent, what its answer must be, and that every failure is said."""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tensorant_app.domain.safety_settings import ClassifierKind, SafetySettings
from tensorant_app.services import classifiers, outbound
from tensorant_app.services.classifiers import NotChecked, Refusal, classify
from tensorant_app.services.outbound import Unreachable, is_public, post_json

Answer = tuple[int, bytes]
ROWS = [{"split": "train", "row": row, "example": json.dumps({"messages": [f"row {row}"]})} for row in range(1, 121)]


class Server:
    """Keeps what it was sent, and answers as it was told."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Answer] = lambda body: (200, b'{"refused": []}')
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.bodies.append(body)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, answer = server.answer(body)
                self.send_response(status)
                self.send_header("location", "http://127.0.0.1:1/")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/check"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.http.serve_forever, daemon=True).start()
    yield server
    server.http.shutdown()
    server.http.server_close()


def address(server: Server, seconds: int = 10) -> SafetySettings:
    return SafetySettings(kind=ClassifierKind.HTTP, url=server.url, seconds=seconds, is_private_allowed=True)


def ask(settings: SafetySettings, beat: Callable[[], None] = lambda: None) -> list[Refusal]:
    return classify(settings, iter(ROWS), beat)


class TestAnAddress:
    def test_every_row_is_sent_once_and_refused_ones_are_named(self, server: Server) -> None:
        server.answer = lambda body: (
            200,
            json.dumps(
                {"refused": [{**row, "reason": "odd\u0007"} for row in body["rows"] if row["row"] % 50 == 0]}
            ).encode(),
        )

        refused = ask(address(server))

        assert refused == [Refusal("train", 50, "odd"), Refusal("train", 100, "odd")]
        assert [row for body in server.bodies for row in body["rows"]] == ROWS
        assert [len(body["rows"]) for body in server.bodies] == [50, 50, 20]

    def test_no_cookie_or_credential_goes_along(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NETRC", "/nowhere")

        ask(address(server))

        assert all(not {"cookie", "authorization", "proxy-authorization"} & set(sent) for sent in server.headers)
        assert {sent["host"] for sent in server.headers} == {f"127.0.0.1:{server.http.server_port}"}

    @pytest.mark.parametrize(
        ("answer", "sentence"),
        [
            ((500, b""), "It answered with status 500."),
            ((302, b""), "It answered with status 302."),
            ((200, b"<html>"), "Its answer is no JSON."),
            ((200, b"[]"), "Its answer has no list “refused”."),
            ((200, b'{"refused": [{"split": "train", "row": 999}]}'), "It names a row that it was not asked about."),
            ((200, b'{"refused": [7]}'), "It names a row that it was not asked about."),
            ((200, b'"' + b"x" * 1_100_000 + b'"'), "Its answer is longer than 1 MiB."),
        ],
    )
    def test_an_answer_that_cannot_be_used_means_not_checked(
        self, server: Server, answer: Answer, sentence: str
    ) -> None:
        server.answer = lambda body: answer

        with pytest.raises(NotChecked) as failed:
            ask(address(server))

        assert str(failed.value) == sentence

    def test_a_slow_one_is_not_waited_for(self, server: Server) -> None:
        server.answer = lambda body: (time.sleep(3), (200, b'{"refused": []}'))[1]

        with pytest.raises(NotChecked, match="did not answer within 1 seconds"):
            ask(address(server, seconds=1))

    def test_nobody_there_means_not_checked(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        settings = SafetySettings(kind=ClassifierKind.HTTP, url=url, is_private_allowed=True)

        with pytest.raises(NotChecked, match="could not be reached"):
            ask(settings)


class TestInsideThisNetwork:
    def test_an_address_of_this_network_is_never_asked_unless_the_operator_allows_it(self, server: Server) -> None:
        with pytest.raises(Unreachable, match="not a public one"):
            post_json(server.url, {}, seconds=5)

        assert server.bodies == []

    def test_a_name_with_one_inner_address_is_refused_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = [(0, 0, 0, "", (ip, 443)) for ip in ("93.184.216.34", "10.0.0.7")]
        monkeypatch.setattr(outbound.socket, "getaddrinfo", lambda *_, **__: found)

        with pytest.raises(Unreachable, match="not a public one"):
            outbound.resolve("safety.example.com", 443, is_private_allowed=False)

    @pytest.mark.parametrize(
        "text",
        [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:169.254.169.254",
            "2002:a9fe:a9fe::1",
            "64:ff9b::a9fe:a9fe",
            "ff02::1",
        ],
    )
    def test_what_is_not_public(self, text: str) -> None:
        assert not is_public(ipaddress.ip_address(text))

    @pytest.mark.parametrize("text", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
    def test_what_is(self, text: str) -> None:
        assert is_public(ipaddress.ip_address(text))


class TestACommand:
    def settings(self, tmp_path: Path, body: str, seconds: int = 20) -> SafetySettings:
        script = tmp_path / "classifier.py"
        script.write_text(f"import json, os, sys, time, subprocess\n{body}\n")
        return SafetySettings(kind=ClassifierKind.COMMAND, command=(sys.executable, "-S", str(script)), seconds=seconds)

    def test_it_reads_rows_and_prints_those_that_it_refuses(self, tmp_path: Path) -> None:
        body = (
            "for line in sys.stdin:\n    row = json.loads(line)\n"
            "    if row['row'] == 7: print(json.dumps({'split': row['split'], 'row': 7, 'reason': 'seven'}))"
        )

        assert ask(self.settings(tmp_path, body)) == [Refusal("train", 7, "seven")]

    def test_it_sees_nothing_of_this_programs_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TENSORANT_SECRET_KEYS", "sealed")
        body = "print(json.dumps({'split': 'train', 'row': 1, 'reason': ' '.join(sorted(os.environ))}))"

        (refused,) = ask(self.settings(tmp_path, body))

        assert set(refused.reason.split()) <= {"PATH", "LANG", "HOME", "LC_CTYPE"}

    @pytest.mark.parametrize(
        ("body", "sentence"),
        [
            ("sys.exit(3)", "Its command ended with code 3."),
            ("print('no JSON')", "It printed a line that is no JSON."),
            ("print(json.dumps({'split': 'test', 'row': 1}))", "It names a row that it was not asked about."),
        ],
    )
    def test_a_failure_means_not_checked(self, tmp_path: Path, body: str, sentence: str) -> None:
        with pytest.raises(NotChecked) as failed:
            ask(self.settings(tmp_path, body))

        assert str(failed.value) == sentence

    def test_a_program_that_is_not_there_means_not_checked(self) -> None:
        settings = SafetySettings(kind=ClassifierKind.COMMAND, command=("/nowhere/classifier",))

        with pytest.raises(NotChecked, match="could not be started: No such file or directory"):
            ask(settings)

    def test_one_that_never_ends_is_ended_with_all_that_it_started(self, tmp_path: Path) -> None:
        told = tmp_path / "child"
        body = (
            "child = subprocess.Popen(['sleep', '600'])\n"
            f"open({str(told)!r}, 'w').write(str(child.pid)); time.sleep(600)"
        )

        with pytest.raises(NotChecked, match="longer than 2 seconds"):
            ask(self.settings(tmp_path, body, seconds=2))

        assert not _lives(int(told.read_text()))

    def test_it_is_ended_where_nobody_waits_any_more(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(classifiers, "_BEAT_SECONDS", 0.2)

        def beat() -> None:
            raise InterruptedError

        with pytest.raises(InterruptedError):
            ask(self.settings(tmp_path, "time.sleep(600)"), beat)


def _lives(pid: int) -> bool:
    """A killed one that nobody has waited for lives no more."""
    for _ in range(50):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
                return False
        except FileNotFoundError:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    ("header", "sent"),
    [("", ("authorization", "Bearer secret-token-1234")), ("X-API-Key", ("x-api-key", "secret-token-1234"))],
)
def test_a_token_is_shown_to_the_address_with_every_call(server: Server, header: str, sent: tuple[str, str]) -> None:
    settings = SafetySettings(kind=ClassifierKind.HTTP, url=server.url, is_private_allowed=True, header=header)

    classify(settings, iter(ROWS), lambda: None, "secret-token-1234")

    assert len(server.headers) == 3
    assert all(headers[sent[0]] == sent[1] for headers in server.headers)
