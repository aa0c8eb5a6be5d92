"""What `tensorant plan` answers, with the kinds of cases tr-01, tr-05 and tr-07 on figures of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tensorant_app.cli import app
from tensorant_app.services.plans import PlanReport, read_plan, report

DISK = {
    "rows": 50,
    "micro_batch": 5,
    "grad_accum": 1,
    "epochs": 6,
    "save": "every 2 epochs",
    "checkpoint_bytes": {"adapter": 100, "optimizer": 200, "other": 10},
}


def planned(**values: Any) -> PlanReport:
    return report(values, {})


def test_a_last_partial_window_is_a_step_and_every_epoch_is_whole() -> None:
    plan = planned(rows=11, micro_batch=3, grad_accum=2, epochs=4)

    assert (plan.micro_batches_per_epoch, plan.steps_per_epoch, plan.total_steps) == (4, 2, 8)
    assert (plan.last_micro_batch_rows, plan.checkpoint_bytes_needed) == (2, None)
    assert (plan.errors, plan.warnings) == ((), ())


def test_several_gpus_share_a_step() -> None:
    assert planned(rows=64, micro_batch=2, grad_accum=2, epochs=1, gpus=4).total_steps == 4


def test_a_warm_up_longer_than_the_run_is_told_with_the_rate_that_it_would_reach() -> None:
    plan = planned(rows=100, micro_batch=10, grad_accum=1, epochs=1, warmup_steps=40, learning_rate=1e-3)

    assert plan.total_steps == 10
    (warning,) = plan.warnings
    assert "40 steps is not shorter than the run of 10" in warning
    assert "2.250e-04 at step 9 and 2.500e-04 (25%)" in warning


@pytest.mark.parametrize(("free", "warned", "refused"), [(930, False, False), (900, True, False), (700, False, True)])
def test_checkpoints_are_held_against_the_free_bytes(free: int, warned: bool, refused: bool) -> None:
    plan = planned(**DISK, volume_free_bytes=free)

    assert plan.checkpoint_bytes_needed == 930
    assert (bool(plan.warnings), bool(plan.errors)) == (warned, refused)
    assert all("930" in sentence and f"{free}" in sentence for sentence in (*plan.warnings, *plan.errors))


def test_layers_that_are_not_there_are_named_beside_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(json.dumps({"module_names": ["h.0.attn.qkv", "h.0.mlp.up", "lm_head"]}))
    (tmp_path / "plan.json").write_text(json.dumps({"base": "base.json", "target_modules": ["q_proj", "up"]}))

    (error,) = read_plan(tmp_path / "plan.json").errors

    assert "no layer called q_proj." in error
    assert "qkv, up (lm_head is there too and is not adapted)" in error


def test_a_vision_model_without_images_and_with_qlora_has_both_reasons() -> None:
    plan = planned(base_kind="vision", method="qlora", version_has_images=False)

    assert len(plan.errors) == 2
    assert plan.total_steps is None


def test_a_rank_above_the_servers_limit_names_the_next_limit_that_servers_accept() -> None:
    (warning,) = planned(rank=48, max_lora_rank=16).warnings

    assert "48 is above the server's limit of 16: start it with a limit of 64" in warning


def test_a_count_that_is_no_count_is_an_error() -> None:
    assert planned(rows=0, micro_batch=2, grad_accum=2, epochs=1).errors == (
        "rows must be a whole number of at least 1, not 0.",
    )


def test_the_command_prints_json(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(DISK))

    told = CliRunner().invoke(app, ["plan", str(tmp_path / "plan.json"), "--json"])

    assert json.loads(told.stdout)["total_steps"] == 60
