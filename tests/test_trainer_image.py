"""What goes into the trainer's image, without Docker."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorant_app.services.bases import base_key
from tests.plain_base import make_plain_base

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "packaging" / "trainer_image.py"
BASE = "python:3.11-slim@sha256:" + "a" * 64


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("base", ["python:3.11-slim", "python:3.11-slim@sha256:short"])
def test_a_base_that_is_not_pinned_is_refused_and_the_way_to_its_digest_told(base: str) -> None:
    ended = build("--base", base)

    assert ended.returncode == 2
    assert "Pin the base by digest" in ended.stderr
    assert "imagetools inspect" in ended.stderr


def test_the_context_holds_the_trainer_and_its_packages_and_nothing_of_the_console(tmp_path: Path) -> None:
    context = tmp_path / "context"

    assert build("--base", BASE, "--context", str(context)).returncode == 0

    lines = (context / "requirements-trainer.txt").read_text().splitlines()
    names = {line.split("==")[0].lower() for line in lines}
    assert {"transformers", "peft", "bitsandbytes", "safetensors", "pyarrow", "tokenizers", "numpy"} <= names
    assert not names & {"reflex", "sqlmodel", "dramatiq", "torch", "boto3", "cryptography"}
    assert all(re.fullmatch(r"[\w.-]+==\S+", line) for line in lines)
    assert (context / "trainer" / "boot.py").read_bytes() == (ROOT / "trainer" / "boot.py").read_bytes()
    assert not list(context.rglob("__pycache__"))


def test_a_base_model_is_built_in_where_a_job_looks_for_it_once_it_is_found_whole(tmp_path: Path) -> None:
    context, folder = tmp_path / "context", tmp_path / "tiny"
    base = make_plain_base(folder)

    assert build("--base", BASE, "--base-model", str(folder), "--context", str(context)).returncode == 0

    assert (context / "bases" / base_key(base).removeprefix("bases/") / "model.safetensors").exists()
    (folder / "model.safetensors").write_bytes(b"torn")
    torn = build("--base", BASE, "--base-model", str(folder), "--context", str(tmp_path / "other"))
    assert (torn.returncode, "cannot be built in" in torn.stderr) == (2, True)


def test_the_file_copies_what_the_context_holds_and_starts_the_boot() -> None:
    text = (ROOT / "packaging" / "trainer" / "Dockerfile").read_text()

    copied = {line.split()[1] for line in text.splitlines() if line.startswith("COPY")}
    assert copied == {"requirements-trainer.txt", "trainer", "bases"}
    assert 'ENTRYPOINT ["/opt/tensorant/boot"]' in text
    assert "torch==2.13.0" in text


def test_the_entry_point_is_the_one_that_the_console_asks_for() -> None:
    from tensorant_app.providers.runpod import BOOT_COMMAND

    assert importlib.util.find_spec("trainer.boot") is not None
    assert f'ENTRYPOINT ["{BOOT_COMMAND}"]' in (ROOT / "packaging" / "trainer" / "Dockerfile").read_text()
