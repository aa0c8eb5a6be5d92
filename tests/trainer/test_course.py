"""The course of a run: too little memory, evaluations on the way, an early end, and the adapter that is kept."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainer.conftest import OPTIONS, Volume
from trainer import loop as loop_module
from trainer.attempt import Attempt
from trainer.base import load_model
from trainer.checkpoint import Progress, rng_state
from trainer.contract import (
    CHECKPOINTS,
    EVENTS,
    METRICS,
    SAMPLES,
    AttemptKeys,
    Base,
    Outcome,
    Plan,
    hash_file,
    verify_folder,
)
from trainer.curves import note_loss, note_validation, overfits, require_finite
from trainer.errors import WORDINGS, TrainerError
from trainer.loop import Loop
from trainer.lora import add_lora
from trainer.step import make_optimizer
from trainer.watchdog import Watchdog

PLAIN = replace(OPTIONS, dropout=0.0)


def events(volume: Volume, keys: AttemptKeys, kind: str) -> list[dict[str, object]]:
    return [line for line in volume.lines(keys, EVENTS) if line["kind"] == kind]


def losses(volume: Volume, keys: AttemptKeys) -> list[float]:
    return [line["loss"] for line in volume.lines(keys, METRICS) if "loss" in line]


def test_too_little_memory_halves_the_micro_batch_once_and_trains_to_the_same_losses(volume: Volume) -> None:
    roomy, narrow = volume.add_run("roomy", options=PLAIN), volume.add_run("narrow", options=PLAIN)

    assert volume.run("train", roomy) == 0
    assert volume.run("train", narrow, patch="out_of_memory_for_more_than_two_rows") == 0

    (told,) = events(volume, narrow, "narrowed")
    assert (told["stage"], told["micro_batch_size"], told["step"]) == ("training", 2, 0)
    assert losses(volume, narrow) == pytest.approx(losses(volume, roomy), abs=2e-4)


def test_activations_are_computed_again_only_where_memory_asks_for_it_and_change_nothing(volume: Volume) -> None:
    roomy, small = volume.add_run("much-free", options=OPTIONS), volume.add_run("little-free", options=OPTIONS)

    assert volume.run("train", roomy) == 0
    assert volume.run("train", small, patch="hardly_any_memory_free") == 0

    (kept,), (again,) = events(volume, roomy, "memory_planned"), events(volume, small, "memory_planned")
    assert (kept["gradient_checkpointing"], again["gradient_checkpointing"]) == (False, True)
    assert again["free_mb"] == 64
    assert again["needed_mb"] < kept["needed_mb"]
    assert not events(volume, small, "narrowed")
    assert losses(volume, small) == losses(volume, roomy)


def test_memory_that_is_never_enough_in_validation_says_so_and_keeps_the_last_checkpoint(volume: Volume) -> None:
    options = replace(PLAIN, checkpoint_unit="steps", checkpoint_every_steps=4)
    keys = volume.add_run("tight", options=options)

    code = volume.run("train", keys, patch="out_of_memory_in_validation")

    failure = volume.result(keys).failure
    assert failure is not None
    assert (code, failure.code) == (32, "out_of_memory_in_validation")
    assert "in validation after step 4 of 24" in failure.message
    assert "the last complete checkpoint, step-000004, is kept" in failure.advice
    assert verify_folder(volume.root / keys.outputs / CHECKPOINTS / "step-000004").facts["step"] == 4
    assert "training itself fitted" in failure.message
    assert "shorter context" in failure.advice


def test_a_run_ends_early_and_hands_over_the_adapter_of_its_best_evaluation(volume: Volume) -> None:
    options = replace(OPTIONS, epochs=6, early_stop=True, early_stop_patience=2, adapter_from="best")
    keys = volume.add_run("early", options=options)

    assert volume.run("train", keys, patch="validation_that_worsens_after_the_second") == 0

    result = volume.result(keys)
    best = volume.root / keys.outputs / "checkpoints" / "step-000012"
    facts = verify_folder(volume.root / keys.adapter).facts
    assert (result.outcome, result.step, result.total_steps) == (Outcome.DONE, 24, 36)
    assert (facts["step"], facts["validation_loss"]) == (12, 2.0)
    assert hash_file(volume.root / keys.adapter / "adapter_model.safetensors") == hash_file(
        best / "adapter_model.safetensors"
    )
    assert events(volume, keys, "stopped_early")


def test_checkpoints_by_steps_are_evaluated_and_pinned_prompts_are_answered_at_each(volume: Volume) -> None:
    options = replace(OPTIONS, epochs=1, checkpoint_unit="steps", checkpoint_every_steps=2)
    keys = volume.add_run("sampled", options=options, sample_prompts=("one cat", "one dog"))

    assert volume.run("train", keys) == 0

    samples = volume.lines(keys, SAMPLES)
    scored = [line for line in volume.lines(keys, METRICS) if "exact_match" in line]
    assert [(line["step"], line["prompt"]) for line in samples] == [
        (s, p) for s in (2, 4, 6) for p in ("one cat", "one dog")
    ]
    assert [line["step"] for line in scored] == [2, 4, 6]
    assert all("validation_loss" in line for line in scored)
    assert [line["step"] for line in events(volume, keys, "checkpoint")] == [2, 4, 6]


def test_a_pause_while_answers_are_taken_keeps_every_step_before_them(volume: Volume) -> None:
    options = replace(OPTIONS, epochs=2)
    first = volume.add_run("asked", options=options, sample_prompts=("one cat",))
    assert volume.run("train", first, patch="pause_while_answering") == 0

    paused = volume.result(first)
    second = volume.add_run("asked", 2, options=options, sample_prompts=("one cat",), resume_from=(first.outputs,))
    assert volume.run("train", second) == 0

    assert (paused.outcome, paused.step) == (Outcome.PAUSED, 6)
    assert [line["step"] for line in events(volume, first, "checkpoint")] == [6]
    assert [line["step"] for line in volume.lines(second, METRICS) if "loss" in line] == list(range(7, 13))
    # The answers that were broken off are taken by the next attempt.
    assert [line["step"] for line in volume.lines(second, METRICS) if "exact_match" in line] == [6, 12]


def test_a_published_adapter_ends_a_third_boot_well(volume: Volume, trained: AttemptKeys) -> None:
    keys = volume.add_run("thrice", options=replace(OPTIONS, epochs=1))
    assert volume.run("train", keys) == 0
    (volume.root / keys.outputs / "result.json").unlink()
    boot = volume.root / keys.outputs / "boot.json"
    boot.write_text(json.dumps({**json.loads(boot.read_text()), "boot": 2}))

    assert volume.run("train", keys) == 0

    assert volume.result(keys).outcome is Outcome.DONE


def test_a_spike_that_heals_is_no_divergence() -> None:
    dice, progress, plan = random.Random(3), Progress(), Plan(10, 10, 40, 2)
    curve = [2.5 * 0.95**step + 0.02 * dice.random() for step in range(40)]
    curve[14:16] = [31.0, 4.2]

    for loss in curve:
        progress.step += 1
        note_loss(progress, loss, plan)

    assert progress.above < 20


def test_a_step_without_a_token_to_learn_or_with_a_wild_gradient_is_named_before_the_weights_change() -> None:
    with pytest.raises(TrainerError, match=r"Step 3 .*: 0 trained tokens .* gradient that is not a finite") as masked:
        require_finite(0.0, float("nan"), learned=0, step=3, rows=[8, 4])
    with pytest.raises(TrainerError, match="gradient was not a finite number at step 5, which had 12 trained") as wild:
        require_finite(1.2, float("nan"), learned=12, step=5, rows=[8, 4])

    assert (masked.value.code, wild.value.code) == ("all_masked", "not_finite")
    assert "4, 8" in masked.value.failure.advice


def test_a_rising_validation_loss_beside_a_falling_training_loss_is_overfitting() -> None:
    progress = Progress(losses=[3.0, 2.0, 1.0, 0.5])
    for step, loss in ((1, 2.0), (2, 2.1), (3, 2.2)):
        progress.step = step
        note_validation(progress, loss, OPTIONS)

    assert overfits(progress)
    assert (progress.best_step, progress.worse, progress.stopped_early) == (1, 2, False)


def test_every_failure_has_a_sentence_an_advice_and_an_exit_code_of_its_own_and_stands_in_the_docs() -> None:
    codes = [wording.exit_code for wording in WORDINGS.values()]
    lines = [f"| `{code}` | {w.exit_code} | {w.message} | {w.advice} |" for code, w in WORDINGS.items()]
    text = (Path(__file__).parents[2] / "docs" / "trainer.md").read_text()

    assert len(set(codes)) == len(codes)
    assert 0 not in codes
    assert [line for line in lines if line not in text] == []


def test_a_token_weighs_the_same_in_a_short_and_in_a_long_micro_batch(
    tiny_base: Base, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case tr-01: the sum of all token losses over their number, never a mean of means; a last partial window too."""
    windows = [[[0.9, 1.1, 2.0], [0.25], [1.5, 0.5, 0.5, 0.5, 1.0]], [[3.0, 1.0]]]
    right = [(4.0 + 0.25 + 4.0) / 9, 2.0]
    model = add_lora(load_model(tiny_base), PLAIN)
    weight = next(p for p in model.parameters() if p.requires_grad)
    loop = Loop(
        model, [], [], PLAIN, Plan(3, 1, 1, 0), make_optimizer(model, PLAIN), Progress(), attempt, Watchdog(attempt)
    )
    monkeypatch.setattr(loop_module, "summed_loss", lambda model, pack: weight.sum() * 0 + sum(pack))

    for micro_batches, wanted in zip(windows, right, strict=True):
        monkeypatch.setattr(Loop, "packs", lambda self, rows, share_prefix, packs=micro_batches: packs)
        learned = sum(len(losses) for losses in micro_batches)
        assert loop._accumulate([], learned, rng_state()) == pytest.approx(wanted, abs=1e-6)


def test_another_revision_in_the_folder_than_planned_ends_the_run_before_anything_is_read(volume: Volume) -> None:
    keys = volume.add_run("other-revision", base=replace(volume.base, revision="0" * 40))

    code = volume.run("train", keys)

    failure = volume.result(keys).failure
    assert failure is not None
    assert (code, failure.code) == (24, "wrong_revision")
    assert volume.base.revision in failure.message
