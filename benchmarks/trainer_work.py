"""What one process of `benchmarks.trainer` does: `python -m benchmarks.trainer_work WHO DATA SEED` prints JSON."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.contract import TrainOptions
    from trainer.loop import Loop

ROOT = Path(__file__).resolve().parents[1]
BATCH, RATE, RANK, ALPHA = 8, 1e-3, 8, 16
ROWS = {"shared": 24, "plain": 8}
"""Trained: rows that share a long system prompt, and rows of some 150 tokens that share nothing."""
PACKED = {"shared": 512, "plain": 2048}
"""Tokens of TRL's packs."""
ASKED = 64
NEW_TOKENS = 8
ASKED_AT_ONCE = 16
MASKED_ROWS = 20_000
TRIAL_ROWS, TRIAL_STEPS, RUN_ROWS = 40, 20, 120
LONGEST_TOOLS = 500
"""Characters; longer descriptions of tools make the comparison slow and no other."""
Figures = dict[str, Any]


def ours(data: str, seed: int, *, packing: bool = True) -> Figures:
    from trainer.contract import TrainOptions

    options = TrainOptions(
        epochs=1, rank=RANK, alpha=ALPHA, learning_rate=RATE, micro_batch_size=BATCH, accumulation=1,
        schedule="constant", warmup_ratio=0, packing=packing,
    )  # fmt: skip
    with _loop(data, ROWS[data], options) as loop:
        began = time.process_time()
        for _ in range(loop.plan.total_steps):
            loop._step()
        cpu = time.process_time() - began
        return {"rows": ROWS[data], "cpu": cpu, "loss": loop.progress.losses[-1]} | _memory()


def unpacked(data: str, seed: int) -> Figures:
    return ours(data, seed, packing=False)


def trl(data: str, seed: int, *, best: bool = False) -> Figures:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import SFTTrainer

    parts = [{"prompt": e["messages"][:-1], "completion": e["messages"][-1:]} for e in examples(data, ROWS[data])]
    with tempfile.TemporaryDirectory() as out:
        model, config, lora = _peer(out, data, best=best)
        trainer = SFTTrainer(
            model, config, train_dataset=Dataset.from_list(parts), peft_config=lora,
            processing_class=AutoTokenizer.from_pretrained(base_folder()),
        )  # fmt: skip
        began = time.process_time()
        trainer.train()
        cpu = time.process_time() - began
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {"rows": ROWS[data], "cpu": cpu, "loss": losses[-1], "steps": trainer.state.global_step} | _memory()


def trl_best(data: str, seed: int) -> Figures:
    return trl(data, seed, best=True)


def _peer(out: str, data: str, *, best: bool) -> tuple[Any, Any, Any]:
    """TRL as it comes, but for bf16, which this processor has no units for; or packed, and without checkpointing."""
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig

    torch.set_num_threads(1)
    more: dict[str, Any] = {"per_device_train_batch_size": BATCH}
    if best:
        more = {"per_device_train_batch_size": 1, "packing": True, "max_length": PACKED[data]}
        more["gradient_checkpointing"] = False
    config = SFTConfig(
        output_dir=out, num_train_epochs=1, learning_rate=RATE, lr_scheduler_type="constant", bf16=False, use_cpu=True,
        report_to=[], save_strategy="no", logging_steps=1, disable_tqdm=True, **more,
    )  # fmt: skip
    lora = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM")
    return AutoModelForCausalLM.from_pretrained(base_folder(), dtype=torch.float32), config, lora


def evaluate(data: str, seed: int) -> Figures:
    from trainer.generate import Limits, Question, answer_all

    model, prompts, stops = _asked(data)
    questions = [Question(prompt, []) for prompt in prompts]
    began = time.process_time()
    replies = answer_all(model, questions, Limits(stops, NEW_TOKENS, ASKED_AT_ONCE), lambda done: None)
    cpu = time.process_time() - began
    return {"cpu": cpu, "rows": ASKED, "answers": [reply.ids for reply in replies]} | _memory()


def generate(data: str, seed: int) -> Figures:
    model, prompts, stops = _asked(data)
    began = time.process_time()
    answers: list[list[int]] = []
    for first in range(0, ASKED, ASKED_AT_ONCE):
        answers += _generated(model, prompts[first : first + ASKED_AT_ONCE], stops)
    return {"cpu": time.process_time() - began, "rows": ASKED, "answers": answers} | _memory()


def _asked(data: str) -> tuple[Any, list[list[int]], frozenset[int]]:
    import torch

    from trainer.base import load_model, load_tokenizer, stop_tokens
    from trainer.chat import encode_prompt

    torch.set_num_threads(1)
    base = _base()
    tokenizer = load_tokenizer(base)
    stops = stop_tokens(base, tokenizer)
    prompts = [encode_prompt(tokenizer, e["messages"][:-1], None, stops) for e in examples(data, ASKED)]
    return load_model(base).eval(), prompts, stops


def _generated(model: Any, prompts: list[list[int]], stops: frozenset[int]) -> list[list[int]]:
    """As the documentation of transformers says: filled on the left, greedy."""
    import torch

    width, pad = max(map(len, prompts)), min(stops)
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
    seen = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        out = model.generate(
            input_ids=ids, attention_mask=seen, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=pad,
            eos_token_id=sorted(stops),
        )  # fmt: skip
    lines = out[:, width:].tolist()
    return [line[: next((i for i, token in enumerate(line) if token in stops), len(line))] for line in lines]


def mask(data: str, seed: int) -> Figures:
    """The rows of a file checked as `tensorant data mask` does, in as many processes as there are cores."""
    from trainer.mask_file import mask_file

    lines = [json.dumps(e) for e in examples(data, 1000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("\n".join(lines[i % len(lines)] for i in range(MASKED_ROWS)))
        began, before = time.monotonic(), _cpu_of_all()
        count = sum(1 for _ in mask_file(path, Path(base_folder()), context=2048))
        return {"rows": count, "wall": time.monotonic() - began, "cpu": _cpu_of_all() - before}


def first_step(data: str, seed: int) -> Figures:
    """A job as a machine gets it, of the demo's settings, ended after its first step."""
    from trainer.contract import JOB, METRICS, AttemptKeys, TrainJob, TrainOptions, dump, write_file

    options = TrainOptions(epochs=1, rank=RANK, alpha=ALPHA, micro_batch_size=16, accumulation=1, context_length=256)
    with tempfile.TemporaryDirectory() as name:
        volume, keys = Path(name), AttemptKeys.of("runs", "first", 1)
        rows = examples(data, 300)
        _write_split(volume / "train.parquet", rows[:240])
        _write_split(volume / "validation.parquet", rows[240:])
        job = TrainJob("first", 1, "bench", _base(), "train.parquet", "validation.parquet", options)
        write_file(volume / keys.inputs / JOB, dump(job))
        began = time.monotonic()
        arguments = ["train", "--volume", name, "--job", f"{keys.inputs}/{JOB}"]
        process = subprocess.Popen([sys.executable, "-m", "trainer", *arguments], cwd=ROOT, stderr=subprocess.DEVNULL)
        metrics = volume / keys.outputs / METRICS
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.01)
        wall = time.monotonic() - began
        process.kill()
        process.wait()
    return {"wall": wall, "cpu": _cpu(resource.RUSAGE_CHILDREN), "load": os.getloadavg()[0]}


def trial(data: str, seed: int) -> Figures:
    """What a trial predicts of a whole run, and what the run then takes."""
    from trainer.contract import TrainOptions, TrialLimits
    from trainer.trial_report import run_trial

    options = TrainOptions(
        epochs=1, rank=RANK, alpha=ALPHA, learning_rate=RATE, micro_batch_size=2, accumulation=1, warmup_ratio=0, seed=seed
    )  # fmt: skip
    limits = TrialLimits(rows=TRIAL_ROWS, steps=TRIAL_STEPS, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("\n".join(json.dumps(e) for e in examples(data, RUN_ROWS)))
        report = run_trial(_base(), path, None, options, limits, clock=time.process_time)
    assert report.prediction is not None, report.missing
    with _loop(data, RUN_ROWS, options) as loop:
        began = time.process_time()
        for _ in range(loop.plan.total_steps):
            loop._step()
        actual = time.process_time() - began
    predicted = report.prediction.seconds
    return {"predicted": predicted, "actual": actual, "error_pct": 100 * (predicted - actual) / actual}


@contextmanager
def _loop(data: str, rows: int, options: TrainOptions) -> Iterator[Loop]:
    """A training loop of our own that stands before its first step."""
    import torch

    from trainer.attempt import take
    from trainer.base import load_model, load_tokenizer, stop_tokens
    from trainer.chat import encode_example
    from trainer.checkpoint import Progress
    from trainer.contract import AttemptKeys, Plan
    from trainer.loop import Loop
    from trainer.lora import add_lora
    from trainer.step import make_optimizer
    from trainer.watchdog import Watchdog

    torch.set_num_threads(1)
    base = _base()
    tokenizer = load_tokenizer(base)
    stops = stop_tokens(base, tokenizer)
    encoded = [one for example in examples(data, rows) for one in encode_example(tokenizer, example, stops)]
    model = add_lora(load_model(base), options)
    with tempfile.TemporaryDirectory() as folder:
        attempt = take(Path(folder), AttemptKeys.of("runs", "bench", 1), machine="bench", number=1)
        assert attempt is not None, "nobody else knows this folder"
        optimizer, plan = make_optimizer(model, options), Plan.of(len(encoded), options)
        loop = Loop(model, encoded, [], options, plan, optimizer, Progress(), attempt, Watchdog(attempt))
        loop.prepare()
        yield loop


def examples(data: str, count: int) -> list[dict[str, Any]]:
    if data == "shared":
        path = ROOT / "tensorant_app" / "demo" / "glosses.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()[:count]]
    return _calls()[:count]


def _calls() -> list[dict[str, Any]]:
    """Real questions with the call that answers them; the tool itself stands first, so rows begin with different words."""
    import bfcl_eval

    folder, name = Path(bfcl_eval.__file__).parent / "data", "BFCL_v4_live_simple.json"
    files = (folder / name, folder / "possible_answer" / name)
    asked, answered = ([json.loads(line) for line in path.read_text().splitlines()] for path in files)
    found = []
    for question, answer in zip(asked, answered, strict=True):
        tools, user = json.dumps(question["function"][0]), question["question"][0][-1]["content"]
        texts = [("system", f"{tools}\nCall it."), ("user", user), ("assistant", json.dumps(answer["ground_truth"][0]))]
        if len(tools) < LONGEST_TOOLS:
            found.append({"messages": [{"role": role, "content": text} for role, text in texts]})
    return found


def _write_split(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"row": list(range(1, len(rows) + 1)), "example": [json.dumps(row) for row in rows]})
    pq.write_table(table, path)


def _base() -> Any:
    from trainer.contract import MANIFEST, Base

    folder = Path(base_folder())
    facts = json.loads((folder / MANIFEST).read_text())["facts"]
    return Base(facts["repo_id"], facts["revision"], str(folder))


def base_folder() -> str:
    from tensorant_app.services.bases import fetch_demo_base

    return fetch_demo_base(lambda line: None).folder


def _memory() -> Figures:
    return {"rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _cpu_of_all() -> float:
    return _cpu(resource.RUSAGE_SELF) + _cpu(resource.RUSAGE_CHILDREN)


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


WORK = {work.__name__: work for work in (ours, unpacked, trl, trl_best, evaluate, generate, mask, first_step, trial)}

if __name__ == "__main__":
    print(json.dumps(WORK[sys.argv[1]](sys.argv[2], int(sys.argv[3]))))
