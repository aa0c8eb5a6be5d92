"""Rows laid side by side give the loss and the gradients that they would give alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.trainer.conftest import animal_rows
from trainer.batching import pack_rows, packs_of, pad_rows, segment_mask, window
from trainer.chat import Encoded, encode_example
from trainer.contract import Plan, TrainOptions
from trainer.loop import summed_loss
from trainer.lora import add_lora

STOPS = frozenset({2})
DEVICE = os.environ.get("TENSORANT_TEST_DEVICE", "cpu")
"""cuda, where docs/gpu-checklist.md asks for it."""


def rows_of(tokenizer: Any, count: int) -> list[Encoded]:
    return [one for example in animal_rows(count, seed=4) for one in encode_example(tokenizer, example, STOPS)]


@pytest.fixture
def model(tiny_base: Any) -> Any:
    """In float64, with matrices that are not zero, so that every gradient tells something."""
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_base.folder, dtype=torch.float64, attn_implementation="sdpa")
    adapted = add_lora(base, TrainOptions(rank=4)).double()
    torch.manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    return adapted.to(DEVICE)


def alone(model: Any, rows: Sequence[Encoded]) -> torch.Tensor:
    """The reference: each row by itself, through the whole model, as anyone would write it."""
    total = torch.zeros((), dtype=torch.float64, device=DEVICE)
    for row in rows:
        logits = model(input_ids=torch.tensor([row.ids], device=DEVICE)).logits[0]
        for start, end in row.trained:
            total = total + cross_entropy(
                logits[start - 1 : end - 1], torch.tensor(row.ids[start:end], device=DEVICE), reduction="sum"
            )
    return total


def gradients(model: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("layout", ["shared prefix", "side by side", "padded"])
def test_loss_and_every_gradient_equal_those_of_the_rows_alone(model: Any, tokenizer: Any, layout: str) -> None:
    rows = rows_of(tokenizer, 6)
    pack = pad_rows(rows) if layout == "padded" else pack_rows(rows, share_prefix=layout == "shared prefix")
    expected = alone(model, rows)
    wanted = gradients(model, expected)

    loss = summed_loss(model, pack)
    found = gradients(model, loss)

    # RMSNorm and RoPE of transformers work in float32 inside, whatever the model's type.
    assert abs(loss.item() - expected.item()) < 1e-5 * expected.item()
    assert len(found) == 28
    for name, gradient in wanted.items():
        assert gradient.abs().max() > 1e-3, name
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-5, msg=name)


def test_a_shared_prefix_is_read_once_and_ends_before_anything_learned(tokenizer: Any) -> None:
    rows = rows_of(tokenizer, 5)

    pack = pack_rows(rows, share_prefix=True)

    assert pack.segments is not None
    shared = pack.segments.count(0)
    assert shared > 30
    assert len(pack.ids[0]) == pack.real_tokens - 4 * shared
    assert shared < min(row.trained[0][0] for row in rows)
    assert len(pack.labels) == sum(row.trained_tokens for row in rows)


def test_rows_that_are_all_the_same_keep_their_learned_tokens_apart(model: Any, tokenizer: Any) -> None:
    rows = rows_of(tokenizer, 1) * 3

    loss = summed_loss(model, pack_rows(rows, share_prefix=True))

    assert loss.item() == pytest.approx(alone(model, rows).item(), rel=1e-6)


def test_rows_without_a_common_beginning_are_packed_plainly(model: Any, tokenizer: Any) -> None:
    first, second = rows_of(tokenizer, 2)
    other = Encoded([5, *second.ids[1:]], second.trained, second.text, second.spans)

    pack = pack_rows([first, other], share_prefix=True)

    assert pack.segments is not None
    assert 0 not in pack.segments
    assert summed_loss(model, pack).item() == pytest.approx(alone(model, [first, other]).item(), rel=1e-6)


def test_several_turns_in_a_row_are_all_learned_in_a_pack(model: Any, tokenizer: Any) -> None:
    talk = animal_rows(1, seed=8)[0]["messages"]
    long = encode_example(tokenizer, {"messages": [*talk, *talk[1:]]}, STOPS)
    rows = [*long, *rows_of(tokenizer, 2)]

    loss = summed_loss(model, pack_rows(rows, share_prefix=True))

    assert len(long[0].trained) == 2
    assert loss.item() == pytest.approx(alone(model, rows).item(), rel=1e-6)


def test_a_position_sees_the_prefix_and_its_own_row_only() -> None:
    mask = segment_mask(torch.tensor([0, 0, 1, 1, 2]))[0, 0].int().tolist()

    assert mask == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 1]]


def test_the_order_follows_seed_and_epoch_and_every_row_comes_once_an_epoch() -> None:
    rows = [Encoded([i], [], "", [], row=i) for i in range(10)]
    options = TrainOptions(micro_batch_size=2, accumulation=2, epochs=2)
    steps = Plan.of(10, options).steps_per_epoch

    epochs = [[[r.row for r in window(rows, options, e * steps + s)] for s in range(steps)] for e in range(2)]

    assert [len(group) for group in epochs[0]] == [4, 4, 2]
    assert sorted(chain(*epochs[0])) == sorted(chain(*epochs[1])) == list(range(10))
    assert epochs[0] != epochs[1]
    assert [r.row for r in window(rows, options, 1)] == epochs[0][1]


def test_long_rows_go_through_in_several_packs_and_none_is_lost() -> None:
    rows = [Encoded([7] * 3000, [(10, 3000)], "", [], row=i) for i in range(3)]

    packs = packs_of(rows, TrainOptions(micro_batch_size=3, accumulation=1), share_prefix=False)

    assert [pack.rows for pack in packs] == [(0,), (1,), (2,)]
    assert sum(len(pack.labels) for pack in packs) == 3 * 2990


def test_long_rows_that_share_nothing_are_padded_and_short_ones_with_a_common_beginning_are_packed() -> None:
    options = TrainOptions(micro_batch_size=4, accumulation=1)
    strangers = [Encoded([i] * 400, [(390, 400)], "", [], row=i) for i in range(1, 5)]
    siblings = [Encoded([7] * 50 + [i] * 10, [(55, 60)], "", [], row=i) for i in range(1, 5)]

    (padded,) = packs_of(strangers, options, share_prefix=True)
    (packed,) = packs_of(siblings, options, share_prefix=True)

    assert padded.segments is None
    assert packed.segments is not None
    assert len(packed.ids[0]) == 50 + 4 * 10
