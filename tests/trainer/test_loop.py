"""The training loop: the same weights for every layout, a sound schedule, and an end when things go wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.trainer.conftest import OPTIONS, animal_rows
from trainer.attempt import Attempt
from trainer.chat import encode_example
from trainer.checkpoint import Progress, adapter_tensors
from trainer.contract import Plan, TrainOptions
from trainer.curves import note_loss
from trainer.errors import TrainerError
from trainer.loop import Loop, learning_rate, make_optimizer
from trainer.lora import add_lora
from trainer.watchdog import Watchdog

PLAIN = replace(OPTIONS, dropout=0.0, epochs=1, learning_rate=5e-3)


def make_loop(tiny_base: Any, tokenizer: Any, attempt: Attempt, options: TrainOptions, rows: int = 19) -> Loop:
    from trainer.base import load_model

    torch.set_num_threads(1)
    encoded = [one for e in animal_rows(rows, seed=9) for one in encode_example(tokenizer, e, frozenset({2}))]
    model = add_lora(load_model(tiny_base), options)
    plan = Plan.of(rows, options)
    return Loop(
        model, encoded, [], options, plan, make_optimizer(model, options), Progress(), attempt, Watchdog(attempt)
    )


def test_packed_padded_and_single_rows_train_to_the_same_weights(
    tiny_base: Any, tokenizer: Any, attempt: Attempt
) -> None:
    layouts = {
        "packed": PLAIN,
        "padded": replace(PLAIN, packing=False),
        "single": replace(PLAIN, packing=False, micro_batch_size=1, accumulation=8),
    }
    weights = {}
    for name, options in layouts.items():
        loop = make_loop(tiny_base, tokenizer, attempt, options)
        for _ in range(loop.plan.total_steps):
            loop._step()
        weights[name] = adapter_tensors(loop.model)

    assert any(tensor.abs().max() > 1e-3 for name, tensor in weights["packed"].items() if "lora_B" in name)
    for name, tensor in weights["single"].items():
        torch.testing.assert_close(weights["packed"][name], tensor, rtol=1e-3, atol=2e-5, msg=name)
        torch.testing.assert_close(weights["padded"][name], tensor, rtol=1e-3, atol=2e-5, msg=name)


def test_a_loss_far_above_its_best_for_twenty_steps_has_diverged(
    tiny_base: Any, tokenizer: Any, attempt: Attempt
) -> None:
    loop = make_loop(tiny_base, tokenizer, attempt, PLAIN)
    loop.progress = Progress(step=50, losses=[1.0], smoothed=1.0, best=1.0)

    loop.progress.losses.append(9.0)
    while loop.progress.above < 19:
        note_loss(loop.progress, loop.progress.losses[-1], loop.plan)

    with pytest.raises(TrainerError, match="more than three times its best") as raised:
        note_loss(loop.progress, loop.progress.losses[-1], loop.plan)

    assert raised.value.code == "diverged"


def test_a_small_loss_that_triples_by_noise_has_not_diverged(tiny_base: Any, tokenizer: Any, attempt: Attempt) -> None:
    loop = make_loop(tiny_base, tokenizer, attempt, PLAIN)
    loop.progress = Progress(step=50, losses=[0.001], smoothed=0.001, best=0.001)

    for _ in range(60):
        loop.progress.losses.append(0.01)
        note_loss(loop.progress, loop.progress.losses[-1], loop.plan)

    assert loop.progress.above == 0


def test_a_gradient_that_is_not_finite_names_the_rows_of_the_step(
    tiny_base: Any, tokenizer: Any, attempt: Attempt
) -> None:
    loop = make_loop(tiny_base, tokenizer, attempt, PLAIN)

    with pytest.raises(TrainerError, match="The gradient was not a finite number at step 1") as raised:
        loop._require_finite(1.0, float("inf"), [replace(row, row=7) for row in loop.rows[:2]], 9)

    assert "7" in raised.value.failure.advice


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_rate_rises_to_its_height_and_then_never_rises_again(schedule: str) -> None:
    options = TrainOptions(
        schedule=schedule, learning_rate=1.0, warmup_ratio=0.1, epochs=1, micro_batch_size=1, accumulation=1
    )
    plan = Plan.of(50, options)

    rates = [learning_rate(options, plan, step) for step in range(plan.total_steps)]

    assert rates[:5] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert rates[5] == 1.0
    assert all(later <= earlier for earlier, later in pairwise(rates[5:]))
    assert rates[-1] > 0


def test_only_language_layers_get_matrices_and_never_the_head(tiny_base: Any) -> None:
    from trainer.base import load_model
    from trainer.lora import language_linears

    names = language_linears(load_model(tiny_base))

    assert len(names) == 14
    assert not any("lm_head" in name for name in names)


def test_a_vision_tower_is_left_alone() -> None:
    from transformers import AutoModelForImageTextToText, Idefics3Config

    from trainer.lora import language_linears

    small = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    text = {**small, "model_type": "llama", "vocab_size": 64, "num_key_value_heads": 2, "pad_token_id": 0}
    vision = {**small, "image_size": 16, "patch_size": 8}
    model = AutoModelForImageTextToText.from_config(Idefics3Config(text_config=text, vision_config=vision))
    linears = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]

    names = language_linears(model)

    assert any("vision" in name for name in linears)
    assert len(names) == 7
    assert not any("vision" in name or "connector" in name for name in names)


def test_rows_of_a_model_with_sliding_windows_are_padded(tiny_base: Any, tokenizer: Any, attempt: Attempt) -> None:
    loop = make_loop(tiny_base, tokenizer, attempt, PLAIN)
    packed = loop.packs(loop.rows[:4], share_prefix=True)

    loop.model.config.sliding_window = 16
    padded = loop.packs(loop.rows[:4], share_prefix=True)

    assert packed[0].segments is not None
    assert (padded[0].segments, len(padded[0].ids)) == (None, 4)


def test_a_long_epoch_is_saved_in_between(
    tiny_base: Any, tokenizer: Any, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer import loop as module

    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    loop = make_loop(tiny_base, tokenizer, attempt, PLAIN)

    loop.run()

    made = sorted(path.name for path in (attempt.outputs / "checkpoints").iterdir())
    assert made == ["step-000001", "step-000002", "step-000003"]
