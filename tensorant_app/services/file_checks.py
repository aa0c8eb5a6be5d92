"""Checks of files on this host that the trainer's interpreter answers: the console itself never opens a tokenizer or a model."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorant_app.domain.errors import Refused
from tensorant_app.settings import get_settings

_ROOT = Path(__file__).resolve().parents[2]
"""Holds the package `trainer`, for an interpreter into which Tensorant was not installed."""

_TRIAL_OVER_TIME = 71
"""The trainer's exit code of a trial that ran out of time and has a report all the same."""


def mask_file(file: Path, tokenizer: Path, context: int | None, *, merge_system: bool) -> Mapping[str, Any]:
    """What a model would read and learn of each row."""
    arguments = ["mask-file", str(file.resolve()), "--tokenizer", str(tokenizer.resolve())]
    arguments += ["--context", str(context)] if context is not None else []
    return _asked([*arguments, *(["--merge-system"] if merge_system else [])])


def try_training(
    file: Path, base: Path, validation: Path | None, settings: str, limits: Mapping[str, int | float]
) -> Mapping[str, Any]:
    """The training trial report; one that ran out of time holds what was measured."""
    arguments = ["trial-file", str(file.resolve()), "--base", str(base.resolve()), "--options", settings]
    arguments += ["--validation", str(validation.resolve())] if validation else []
    return _asked([*arguments, "--limits", json.dumps(limits)], also=(_TRIAL_OVER_TIME,))


def verify_adapter(file: Path, base: Path | None, max_rank: int | None = None) -> Mapping[str, Any]:
    """What the adapter is, or `Refused` with every reason; `max_rank` is the limit of the server that shall take it."""
    arguments = ["verify-zip", str(file.resolve()), *(["--base", str(base.resolve())] if base else [])]
    return _asked([*arguments, *(["--max-rank", str(max_rank)] if max_rank is not None else [])])


def _asked(arguments: Sequence[str], also: Sequence[int] = ()) -> Mapping[str, Any]:
    command = [str(get_settings().trainer_python), "-m", "trainer", *arguments]
    path = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH", "")) if part)
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
        )
    except OSError as error:
        raise Refused("The trainer could not be started:", [f"{error}."]) from error
    if ended.returncode not in (0, *also):
        lines = ended.stderr.strip().splitlines()
        raise Refused("The trainer could not check it:", lines[-1:] or ["It said nothing."])
    answer: Mapping[str, Any] = json.loads(ended.stdout)
    return answer
