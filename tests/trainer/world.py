"""Trains the tiny base as one of several processes (`torchrun -m tests.trainer.world BASE OUT`) and writes losses and weights."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

warnings.simplefilter("ignore")

import torch  # noqa: E402

from tests.trainer.conftest import OPTIONS, animal_rows  # noqa: E402
from trainer.attempt import take  # noqa: E402
from trainer.base import load_model, load_tokenizer  # noqa: E402
from trainer.chat import encode_example  # noqa: E402
from trainer.checkpoint import Progress, adapter_tensors  # noqa: E402
from trainer.contract import AttemptKeys, Base, Plan  # noqa: E402
from trainer.distributed import join  # noqa: E402
from trainer.loop import Loop  # noqa: E402
from trainer.lora import add_lora  # noqa: E402
from trainer.step import make_optimizer  # noqa: E402
from trainer.watchdog import Watchdog  # noqa: E402


def main(folder: str, out: str) -> None:
    torch.set_num_threads(1)
    world = join()
    options = replace(OPTIONS, dropout=0.0, epochs=2, micro_batch_size=2, accumulation=4 // world.size)
    base = Base("tests/tiny-llama", "0" * 40, folder)
    tokenizer = load_tokenizer(base)
    rows = [one for row in animal_rows(19, seed=4) for one in encode_example(tokenizer, row, frozenset({2}))]
    held = [one for row in animal_rows(5, seed=5) for one in encode_example(tokenizer, row, frozenset({2}))]
    plan, model = Plan.of(len(rows), options, world.size), add_lora(load_model(base), options)
    with tempfile.TemporaryDirectory() as volume:
        attempt = take(Path(volume), AttemptKeys.of("runs", "here", 1), machine="here", number=1)
        assert attempt is not None
        optimizer = make_optimizer(model, options)
        loop = Loop(model, rows, held, options, plan, optimizer, Progress(), attempt, Watchdog(attempt), world)
        loop.run()
    total = sum(float(tensor.double().abs().sum()) for tensor in adapter_tensors(model).values())
    told = {"losses": loop.progress.losses, "validations": loop.progress.validations, "weights": total}
    Path(f"{out}.{world.rank}").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
