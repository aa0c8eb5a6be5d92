"""Asks an organization's own classifier which rows it refuses; whatever goes wrong, the rows count as not checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorant_app.domain.safety_settings import ClassifierKind, SafetySettings, headers_of
from tensorant_app.services.outbound import Unreachable, post_json

_TOGETHER, _TOGETHER_BYTES = 50, 1024 * 1024
"""Rows of one call."""
_CALL_SECONDS = 30.0
_LONGEST_REASON = 200
_MOST_OUTPUT = 64 * 1024 * 1024
_LOOK_SECONDS = 0.1
_BEAT_SECONDS = 5.0
_PATH = "/usr/local/bin:/usr/bin:/bin"

Row = Mapping[str, Any]
"""`split`, `row` and `example`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    split: str
    row: int
    reason: str


class NotChecked(Exception):
    """The classifier gave no whole answer; the message says why."""


def classify(settings: SafetySettings, rows: Iterator[Row], beat: Callable[[], None], token: str = "") -> list[Refusal]:
    """Of rows that the built-in check lets pass, and of no others. `NotChecked` where any answer is missing."""
    until = time.monotonic() + settings.seconds
    if settings.kind is ClassifierKind.COMMAND:
        return _ask_command(settings, rows, until, beat)
    refusals: list[Refusal] = []
    for batch in _batches(rows):
        beat()
        refusals += _ask_address(settings, batch, until, headers_of(settings.header, token))
    return refusals


def _ask_address(
    settings: SafetySettings, batch: Sequence[Row], until: float, headers: Mapping[str, str]
) -> list[Refusal]:
    left = until - time.monotonic()
    if left <= 0:
        raise NotChecked(f"It took longer than {settings.seconds:,} seconds.")
    seconds = min(left, _CALL_SECONDS)
    try:
        answer = post_json(
            settings.url,
            {"rows": batch},
            seconds=seconds,
            is_private_allowed=settings.is_private_allowed,
            headers=headers,
        )
    except Unreachable as error:
        raise NotChecked(str(error)) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("refused"), list):
        raise NotChecked("Its answer has no list “refused”.")
    sent = {(row["split"], row["row"]) for row in batch}
    return [_refusal(one, sent) for one in answer["refused"]]


def _ask_command(
    settings: SafetySettings, rows: Iterator[Row], until: float, beat: Callable[[], None]
) -> list[Refusal]:
    """Rows stand on its standard input, one JSON object a line; it prints one for each row that it refuses."""
    with tempfile.TemporaryDirectory(prefix="tensorant-safety-") as name:
        sent: set[tuple[str, int]] = set()
        questions, answers = Path(name) / "rows.jsonl", Path(name) / "refused.jsonl"
        with questions.open("w", encoding="utf-8") as file:
            for row in rows:
                sent.add((row["split"], row["row"]))
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        _run(settings, questions, answers, until, beat)
        if answers.stat().st_size > _MOST_OUTPUT:
            raise NotChecked("It printed more than 64 MiB.")
        try:
            found = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise NotChecked("It printed a line that is no JSON.") from None
        return [_refusal(one, sent) for one in found]


def _run(settings: SafetySettings, questions: Path, answers: Path, until: float, beat: Callable[[], None]) -> None:
    """Without this program's environment, and ended with its whole group when its time is over."""
    env = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(questions.parent)}
    try:
        with questions.open("rb") as stdin, answers.open("wb") as stdout:
            process = subprocess.Popen(
                settings.command,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                cwd=questions.parent,
                env=env,
                start_new_session=True,
            )
    except OSError as error:
        raise NotChecked(f"Its command could not be started: {error.strerror}.") from None
    try:
        code = _wait(process, answers, until, beat)
    finally:
        _end(process)
    if code is None:
        raise NotChecked(f"It took longer than {settings.seconds:,} seconds.")
    if code != 0:
        raise NotChecked(f"Its command ended with code {code}.")


def _wait(process: subprocess.Popen[bytes], answers: Path, until: float, beat: Callable[[], None]) -> int | None:
    next_beat = time.monotonic() + _BEAT_SECONDS
    while (now := time.monotonic()) < until and answers.stat().st_size <= _MOST_OUTPUT:
        try:
            return process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if now >= next_beat:
                beat()
                next_beat = now + _BEAT_SECONDS
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Also what it left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _refusal(one: object, sent: set[tuple[str, int]]) -> Refusal:
    if not isinstance(one, dict) or (one.get("split"), one.get("row")) not in sent:
        raise NotChecked("It names a row that it was not asked about.")
    reason = "".join(letter for letter in str(one.get("reason", "")) if letter.isprintable())
    return Refusal(str(one["split"]), int(one["row"]), reason[:_LONGEST_REASON].strip())


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    length = 0
    for row in rows:
        size = len(row["example"])
        if batch and (len(batch) == _TOGETHER or length + size > _TOGETHER_BYTES):
            yield batch
            batch, length = [], 0
        batch.append(row)
        length += size
    if batch:
        yield batch
