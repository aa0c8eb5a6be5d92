"""The emulator from a shell."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import httpx
import pytest
from botocore.config import Config

from tests.runpod_emulator import Fault
from tests.runpod_emulator.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def shell(folder: Path, *options: str) -> Iterator[dict[str, str]]:
    """What it prints, while it runs."""
    arguments = ["--folder", str(folder), "--port", "0", "--s3-port", "0", "--pods", "idle", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runpod_emulator", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        lines: list[str] = []
        while not lines or not lines[-1].startswith("volume"):
            line = process.stdout.readline()
            assert line, "It ended at once."
            lines.append(line)
        yield dict(re.split(r"  +", line.strip(), maxsplit=1) for line in lines)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        process.stdout.close()


def test_files_on_the_volume_are_still_there_the_next_time(tmp_path: Path) -> None:
    for body in (b"kept", None):
        with shell(tmp_path) as said:
            access_key, _, secret = said["S3 keys"].partition(" / ")
            s3 = boto3.client(
                "s3",
                endpoint_url=said["S3"],
                region_name="EU-RO-1",
                aws_access_key_id=access_key,
                aws_secret_access_key=secret,
                config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
            )
            if body:
                s3.put_object(Bucket="volume1", Key="a", Body=body)
            read = s3.get_object(Bucket="volume1", Key="a")["Body"].read()
            s3.close()

    assert read == b"kept"


def test_a_fault_can_be_armed_by_its_name(tmp_path: Path) -> None:
    with shell(tmp_path, "--fault", "html") as said:
        headers = {"authorization": f"Bearer {said['API key']}"}
        statuses = [httpx.get(f"{said['API']}/pods", headers=headers).status_code for _ in range(2)]

    assert statuses == [502, 200]


def test_the_faults_are_listed_with_their_effects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-faults"]) == 0

    listed = capsys.readouterr().out
    assert all(f"{fault.name} " in listed and fault.effect in listed for fault in Fault)
