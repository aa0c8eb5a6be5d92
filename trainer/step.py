"""The arithmetic of one optimizer step: the loss of what must be learned, the optimizer, and the learning rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from trainer.batching import Pack, to_tensors
from trainer.checkpoint import Fits
from trainer.contract import Plan, TrainOptions
from trainer.head import read, summed_cross_entropy

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def summed_loss(model: PeftModel, pack: Pack) -> torch.Tensor:
    """Scores are made only where something is learned: elsewhere they would be most of the memory, for nothing."""
    tensors = to_tensors(pack, model.device)
    base: PreTrainedModel = model.get_base_model()  # type: ignore[assignment]
    inputs = {
        "input_ids": tensors.ids,
        "attention_mask": tensors.mask,
        "position_ids": tensors.positions,
        "logits_to_keep": tensors.columns,
        "use_cache": False,
    }
    reading = read(base, **inputs)
    if reading is None:
        logits = base(**inputs).logits
        return cross_entropy(logits.flatten(0, 1)[tensors.flat].float(), tensors.labels, reduction="sum")
    picked = reading.hidden.flatten(0, 1)
    picked = picked if len(pack.ids) == 1 else picked[tensors.flat]
    vocabulary = base.get_output_embeddings().weight.shape[0]
    return summed_cross_entropy(picked, tensors.labels, reading.scores, vocabulary)


def make_optimizer(model: PeftModel, options: TrainOptions) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(trained, lr=options.learning_rate, weight_decay=options.weight_decay, fused=True)


def learning_rate(options: TrainOptions, plan: Plan, step: int) -> float:
    """Of the step counted from 0: a rise, then the schedule's way down, which never reaches 0 before the end."""
    if step < plan.warmup_steps:
        return options.learning_rate * (step + 1) / plan.warmup_steps
    done = (step - plan.warmup_steps) / (plan.total_steps - plan.warmup_steps)
    match options.schedule:
        case "cosine":
            return options.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        case "linear":
            return options.learning_rate * (1 - done)
        case _:
            return options.learning_rate


def fits_of(rows: int, options: TrainOptions, world: int = 1) -> Fits:
    """A checkpoint of other rows, batches or matrices would put the rows in another order, or not load at all."""
    batch = options.micro_batch_size * options.accumulation * world
    order = {"rows": rows, "global_batch": batch, "epochs": options.epochs}
    return order | {"rank": options.rank, "alpha": options.alpha, "seed": options.seed, "method": options.method}
