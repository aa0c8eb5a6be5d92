"""Runs the trainer's command line in real processes that have its libraries loaded already, so that a test need not wait."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")


def start(
    arguments: Sequence[str], *, log: Path, verify: bool = False, patch: str = ""
) -> multiprocessing.process.BaseProcess:
    """`verify=False` publishes the adapter without the fresh process that takes seconds to import torch."""
    _SERVER.set_forkserver_preload(["torch", "transformers", "peft", "pyarrow.parquet", "tests.trainer.preloaded"])
    process = _SERVER.Process(target=_main, args=(list(arguments), str(log), verify, patch))
    process.start()
    return process


def run(arguments: Sequence[str], *, log: Path, verify: bool = False, patch: str = "") -> int:
    process = start(arguments, log=log, verify=verify, patch=patch)
    process.join(180)  # loading torch alone takes a minute on a very busy machine
    assert process.exitcode is not None, f"the process hangs; {log.read_text()}"
    return process.exitcode


def _main(arguments: list[str], log: str, verify: bool, patch: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    warnings.simplefilter("ignore")
    from tests.trainer import patches
    from trainer.__main__ import main

    if not verify:
        patches.publish_unverified()
    if patch:
        getattr(patches, patch)()
    sys.exit(main(arguments))
