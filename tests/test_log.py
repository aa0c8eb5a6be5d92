"""No door key reaches a log line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorant_app.log import log_failure, redact, set_up_logging
from tensorant_app.settings import get_settings


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("token hf_AbCdEfGhIjKlMnOp was used", "hf_AbCdEfGhIjKlMnOp"),
        ("key rpa_0123456789ABCDEF", "rpa_0123456789ABCDEF"),
        ("sk-proj-abc123def456", "sk-proj-abc123def456"),
        ("ghp_0123456789abcdef", "ghp_0123456789abcdef"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "eyJzdWIiOi"),
        ("Authorization: Bearer abc.def-123456", "abc.def-123456"),
        ("{'authorization': 'Basic dXNlcjpwYXNz', 'accept': '*/*'}", "dXNlcjpwYXNz"),
        ("Cookie: session=0123; theme=dark", "0123"),
        ("set-cookie: __Host-session=0123; HttpOnly", "0123"),
        ("[(b'cookie', b'session=0123')]", "0123"),
        ("postgresql://me:open-sesame@host/db", "open-sesame"),
        ("GET /x?api_key=open-sesame&page=2", "open-sesame"),
        ('{"RUNPOD_API_KEY": "open-sesame"}', "open-sesame"),
        ("aws_secret_access_key=open/sesame", "open/sesame"),
        ("password: 'open sesame'", "open sesame"),
    ],
)
def test_what_opens_a_door_is_hidden(line: str, secret: str) -> None:
    assert secret in line
    assert secret not in redact(line)
    assert "[hidden]" in redact(line)


@pytest.mark.parametrize(
    "line",
    [
        "Run tune-0190 took 2,048 tokens in 3 s.",
        "max_new_tokens=64, tokenizer=Qwen/Qwen3-0.6B, tokens: 512",
        "GET /runs/01a22a81-f6a0-7bca-b5fd-e9ca44677f02?page=2",
        "asked the provider at https://rest.runpod.io/v1/pods",
    ],
)
def test_what_opens_none_stays(line: str) -> None:
    assert redact(line) == line


@pytest.fixture
def _logging(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before, level = logging.root.handlers[:], logging.root.level
    monkeypatch.setenv("TENSORANT_LOG_FORMAT", "json")
    get_settings.cache_clear()
    yield
    logging.captureWarnings(False)
    logging.root.handlers[:] = before
    logging.root.setLevel(level)


@pytest.mark.usefixtures("_logging")
def test_a_line_is_json_clean_down_to_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("worker")
    try:
        raise ValueError("refused hf_AbCdEfGhIjKlMnOp")
    except ValueError:
        failure_id = log_failure(logging.getLogger("test"), "Reading the token failed")

    line = json.loads(capsys.readouterr().err)
    assert (line["process"], line["level"]) == ("worker", "ERROR")
    assert failure_id in line["message"]
    assert "ValueError: refused [hidden]" in line["traceback"]
