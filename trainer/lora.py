"""Puts trainable LoRA matrices on the linear layers of the language model, and on nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.contract import TrainOptions
from trainer.errors import TrainerError

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel

NOT_LANGUAGE = ("vision", "visual", "image", "audio", "connector", "projector")


def add_lora(model: PreTrainedModel, options: TrainOptions) -> PeftModel:
    """The first draw of the matrices follows the options' seed."""
    import torch

    torch.manual_seed(options.seed)
    with _only_what_is_needed(model):
        from peft import get_peft_model

        adapted = get_peft_model(model, lora_config(model, options))
    if not any(p.requires_grad for p in adapted.parameters()):
        raise TrainerError("nothing_to_train", what="the base model took no adapter")
    return adapted


def load_lora(model: PreTrainedModel, folder: Path) -> PeftModel:
    """The base with the adapter of a folder."""
    with _only_what_is_needed(model):
        from peft import PeftModel

        return PeftModel.from_pretrained(model, folder)


@contextmanager
def _only_what_is_needed(model: PreTrainedModel) -> Iterator[None]:
    """PEFT loads bitsandbytes wherever it is installed: a second and 50 MB that only a quantised base needs."""
    if getattr(model, "is_loaded_in_4bit", False) or "bitsandbytes" in sys.modules:
        yield
        return
    sys.modules["bitsandbytes"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["bitsandbytes"]
        _forget_what_is_installed()


def _forget_what_is_installed() -> None:
    """A quantised base may follow in the same process."""
    from peft.import_utils import is_bnb_4bit_available, is_bnb_available
    from transformers.utils.import_utils import is_bitsandbytes_available

    for answer in (is_bnb_available, is_bnb_4bit_available, is_bitsandbytes_available):
        answer.cache_clear()


def lora_config(model: PreTrainedModel, options: TrainOptions) -> LoraConfig:
    from peft import LoraConfig

    return LoraConfig(
        task_type="CAUSAL_LM",
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=language_linears(model),
        bias="none",
    )


def language_linears(model: PreTrainedModel) -> list[str]:
    """Named one by one: a pattern such as all-linear would reach the vision tower of an image model too."""
    import torch

    decoder, head = model.get_decoder(), model.get_output_embeddings()
    inside = {id(module) for module in decoder.modules()}
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and id(module) in inside and module is not head
    ]
    strays = [name for name in names if any(part in name.lower() for part in NOT_LANGUAGE)]
    if strays or not names:
        raise TrainerError(
            "nothing_to_train", what=f"its language layers could not be told apart ({strays[:1] or 'none found'})"
        )
    return names
