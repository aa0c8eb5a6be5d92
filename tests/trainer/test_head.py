"""The loss in pieces is the loss: the same value and gradients, and a memory that the vocabulary does not fill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.trainer.conftest import animal_rows
from tests.trainer.test_batching import DEVICE
from trainer import head
from trainer.batching import pack_rows, pad_rows
from trainer.chat import encode_example
from trainer.contract import TrainOptions
from trainer.lora import add_lora
from trainer.step import summed_loss

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "pad_token_id": 0,
}
FAMILIES = {
    "llama": {},
    "gemma2": {"final_logit_softcapping": 5.0, "layer_types": ["full_attention"] * 2},
    "granite": {"logits_scaling": 8.0},
    "cohere": {"logit_scale": 0.0625},
}


def model_of(family: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    config = AutoConfig.for_model(family, **SMALL, **FAMILIES[family])
    model = AutoModelForCausalLM.from_config(config).double()
    torch.nn.init.normal_(model.get_output_embeddings().weight, std=0.5)
    adapted = add_lora(model.requires_grad_(False), TrainOptions(rank=4)).double()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return adapted.train().to(DEVICE)


def gradients(model: Any, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad]))


def whole(model: Any, pack: Any) -> torch.Tensor:
    """The reference: all scores of all positions at once, by the model's own way."""
    ids, positions = (torch.tensor(value, device=DEVICE) for value in (pack.ids, pack.positions))
    logits = model(input_ids=ids, position_ids=positions).logits
    picked = torch.stack([logits[line, column] for line, column in pack.picks])
    return cross_entropy(picked, torch.tensor(pack.labels, device=DEVICE), reduction="sum")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tokens", [1, 7, 10_000])
def test_the_loss_in_pieces_has_the_value_and_the_gradients_of_the_loss_at_once(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, family: str, tokens: int
) -> None:
    monkeypatch.setattr(head, "PIECE_BYTES", 4 * SMALL["vocab_size"] * tokens)
    rows = [one for e in animal_rows(5, seed=4) for one in encode_example(tokenizer, e, frozenset({2}))]
    model, pack = model_of(family), pad_rows(rows)

    expected, found = whole(model, pack), summed_loss(model, pack)

    assert head._finishes[model.get_base_model()] is not None
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for one, other in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_model_that_changes_its_scores_in_a_way_of_its_own_is_asked_itself(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [one for e in animal_rows(3, seed=4) for one in encode_example(tokenizer, e, frozenset({2}))]
    model, pack = model_of("llama"), pad_rows(rows)
    base = model.get_base_model()
    forward = base.forward

    def bent(**inputs: Any) -> Any:
        out = forward(**inputs)
        out.logits = out.logits + torch.linspace(0, 3, out.logits.shape[-1], dtype=torch.float64, device=DEVICE)
        return out

    monkeypatch.setattr(base, "forward", bent)

    assert summed_loss(model, pack).item() == pytest.approx(whole(model, pack).item(), rel=1e-6)
    assert summed_loss(model, pack).item() == pytest.approx(whole(model, pack).item(), rel=1e-6)
    assert head._finishes[base] is None


def test_validation_makes_no_gradient(tokenizer: Any) -> None:
    rows = [one for e in animal_rows(3, seed=4) for one in encode_example(tokenizer, e, frozenset({2}))]
    model, pack = model_of("llama"), pack_rows(rows, share_prefix=True)

    with torch.no_grad():
        loss = summed_loss(model, pack)

    assert not loss.requires_grad
    assert loss.item() == pytest.approx(summed_loss(model, pack).item(), rel=1e-9)


MEASURE = """
import resource, sys, torch
from trainer.head import summed_cross_entropy
torch.set_num_threads(1)
tokens, vocabulary, width = int(sys.argv[1]), 150_000, 16
head = torch.nn.Linear(width, vocabulary, bias=False).requires_grad_(False)
hidden = torch.randn(tokens, width, requires_grad=True)
labels = torch.randint(vocabulary, (tokens,))
summed_cross_entropy(hidden[:2], labels[:2], head, vocabulary).backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
summed_cross_entropy(hidden, labels, head, vocabulary).backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_vocabulary_of_150_000_takes_no_more_memory_for_more_tokens() -> None:
    """1,000 tokens at once would take 600 MB for their scores alone, and three times that for the loss."""
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, "1000"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert int(ended.stdout) < 450
