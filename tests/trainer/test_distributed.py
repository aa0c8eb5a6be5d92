"""Two processes that share each step train as one does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import world as world_script
from trainer.chat import Encoded
from trainer.contract import Plan, TrainOptions
from trainer.distributed import World

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_processes_under_torchrun_have_the_losses_and_weights_of_one(tiny_base: Any, tmp_path: Path) -> None:
    world_script.main(tiny_base.folder, str(tmp_path / "one"))
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

    ended = subprocess.run(
        [*command, "-m", "tests.trainer.world", tiny_base.folder, str(tmp_path / "two")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-2000:]
    one, first, second = (json.loads((tmp_path / name).read_text()) for name in ("one.0", "two.0", "two.1"))
    assert len(one["losses"]) == 6
    assert first == second
    assert first["losses"] == pytest.approx(one["losses"], rel=1e-6)
    assert first["validations"] == pytest.approx(one["validations"], rel=1e-6)
    assert first["weights"] == pytest.approx(one["weights"], rel=1e-6)


def test_every_row_of_a_window_goes_to_one_process() -> None:
    rows = [Encoded([0] * n, [(1, 2)], "", [], row=n) for n in (5, 9, 2, 7, 3)]

    shares = [World(rank, 3).share(rows) for rank in range(3)]

    assert sorted(row.row for share in shares for row in share) == [2, 3, 5, 7, 9]
    assert Plan.of(100, TrainOptions(micro_batch_size=2, accumulation=2), world=4).steps_per_epoch == 7
