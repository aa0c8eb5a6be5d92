"""The trainer beside TRL: the same rows, model, LoRA and threads, alternating, in CPU seconds of processes of their own.

`python -m benchmarks.trainer WHO DATA` is one measurement; `make bench ONLY=trainer` makes them all.
TENSORANT_BENCH_PAIRS (5) says how many pairs, TENSORANT_BENCH_ROWS (32) how many rows each trains.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.table import Row

BEGAN = time.monotonic()
BATCH = 8
RATE = 1e-3
RANK = 8
PAIRS = int(os.environ.get("TENSORANT_BENCH_PAIRS", "5"))
ROWS = int(os.environ.get("TENSORANT_BENCH_ROWS", "32"))
PEERS = {"vs_trl_default": "trl", "vs_trl_best": "trl_best"}
MASKED_ROWS = 20_000


def measure() -> list[Row]:
    rows = []
    for data in ("shared", "plain"):
        runs = _alternating(("ours", "trl", "trl_best"), data)
        for name, peer in PEERS.items():
            ours, theirs = (statistics.median(ROWS / one["cpu"] for one in runs[who]) for who in ("ours", peer))
            rows.append(Row(f"trainer.{data}.{name}", ours, "rows/CPU-s", f"TRL 1.16.0 ({peer})", theirs))
        if data == "shared":
            memory = [statistics.median(one["rss_mb"] for one in runs[who]) for who in ("ours", "trl_best")]
            rows.append(Row("trainer.shared.memory_vs_trl_best", memory[0], "MB", "TRL 1.16.0 (trl_best)", memory[1]))
            reference = _run("unpacked", data)["loss"]
            rows.append(Row("trainer.shared.loss_difference", abs(runs["ours"][0]["loss"] - reference), "nats"))
            rows.append(Row("trainer.first_step_s", statistics.median(o["first_step_s"] for o in runs["ours"]), "s"))
    runs = _alternating(("eval", "generate"), "shared")
    assert runs["eval"][0]["answers"] == runs["generate"][0]["answers"], "both must answer the same"
    ours, theirs = (statistics.median(one["rows"] / one["cpu"] for one in runs[who]) for who in ("eval", "generate"))
    rows.append(Row("trainer.eval.vs_generate", ours, "rows/CPU-s", "transformers generate, batches of 16", theirs))
    rows.append(Row("trainer.mask_rows_per_s", _run("mask", "shared")["rows_per_s"], "rows/s"))
    rows.append(Row("trainer.trial_error_pct", _run("trial", "shared")["error_pct"], "%"))
    return rows


def _alternating(who: tuple[str, ...], data: str) -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in who}
    for _ in range(PAIRS):
        for name in who:
            runs[name].append(_run(name, data))
    return runs


def _run(who: str, data: str) -> dict[str, Any]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.trainer", who, data]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{who} on {data} failed.\n{ended.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    print(who, data, {key: value for key, value in result.items() if key != "answers"}, file=sys.stderr, flush=True)
    return result


def examples(data: str, count: int) -> list[dict[str, Any]]:
    if data == "shared":
        path = Path(__file__).parents[1] / "tensorant_app" / "demo" / "glosses.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()[:count]]
    import bfcl_eval

    folder = Path(bfcl_eval.__file__).parent / "data"
    name = "BFCL_v4_live_simple.json"
    asked, answered = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (folder / name, folder / "possible_answer" / name)
    )
    found = []
    for question, answer in zip(asked, answered, strict=True):
        tools, user = json.dumps(question["function"][0]), question["question"][0][-1]["content"]
        # The tool itself first, so that rows begin with different words.
        if len(tools) < 900:
            call = json.dumps(answer["ground_truth"][0])
            texts = [("system", f"{tools}\nCall it."), ("user", user), ("assistant", call)]
            found.append({"messages": [{"role": role, "content": text} for role, text in texts]})
    return found[:count]


def base_folder() -> str:
    from tensorant_app.services.bases import fetch_demo_base

    return fetch_demo_base(lambda line: None).folder


def ours(data: str, *, packing: bool = True, rows: int = ROWS, options: Any = None) -> dict[str, Any]:
    import torch

    from trainer.attempt import take
    from trainer.base import load_model, load_tokenizer, stop_tokens
    from trainer.chat import encode_example
    from trainer.checkpoint import Progress
    from trainer.contract import AttemptKeys, Base, Plan, TrainOptions
    from trainer.loop import Loop
    from trainer.lora import add_lora
    from trainer.step import make_optimizer
    from trainer.watchdog import Watchdog

    torch.set_num_threads(1)
    options = options or TrainOptions(
        epochs=1, rank=RANK, alpha=16, learning_rate=RATE, micro_batch_size=BATCH, accumulation=1,
        schedule="constant", warmup_ratio=0, packing=packing,
    )  # fmt: skip
    base = Base("demo", "0" * 40, base_folder())
    tokenizer = load_tokenizer(base)
    stops = stop_tokens(base, tokenizer)
    encoded = [one for example in examples(data, rows) for one in encode_example(tokenizer, example, stops)]
    model = add_lora(load_model(base), options)
    with tempfile.TemporaryDirectory() as folder:
        attempt = take(Path(folder), AttemptKeys.of("runs", "bench", 1), machine="bench", number=1)
        assert attempt is not None
        optimizer, plan = make_optimizer(model, options), Plan.of(len(encoded), options)
        loop = Loop(model, encoded, [], options, plan, optimizer, Progress(), attempt, Watchdog(attempt))
        model.train()
        began, first, steps = time.process_time(), 0.0, []
        for _ in range(plan.total_steps):
            step = time.process_time()
            loop._step()
            steps.append(time.process_time() - step)
            first = first or time.monotonic() - BEGAN
    cpu = time.process_time() - began
    return {"cpu": cpu, "loss": loop.progress.losses[-1], "first_step_s": first, "steps": steps} | _memory()


def trl(data: str, *, best: bool) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    torch.set_num_threads(1)
    folder = base_folder()
    parts = [{"prompt": e["messages"][:-1], "completion": e["messages"][-1:]} for e in examples(data, ROWS)]
    more: dict[str, Any] = {"per_device_train_batch_size": BATCH}
    if best:
        length = 512 if data == "shared" else 2048
        more = {
            "per_device_train_batch_size": 1,
            "packing": True,
            "max_length": length,
            "gradient_checkpointing": False,
        }
    with tempfile.TemporaryDirectory() as out:
        config = SFTConfig(
            output_dir=out, num_train_epochs=1, learning_rate=RATE, lr_scheduler_type="constant", bf16=False, use_cpu=True,
            report_to=[], save_strategy="no", logging_steps=1, disable_tqdm=True, **more,
        )  # fmt: skip
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        lora = LoraConfig(r=RANK, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
        trainer = SFTTrainer(
            model, config, train_dataset=Dataset.from_list(parts), peft_config=lora,
            processing_class=AutoTokenizer.from_pretrained(folder),
        )  # fmt: skip
        began = time.process_time()
        trainer.train()
        cpu = time.process_time() - began
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {"cpu": cpu, "loss": losses[-1], "steps_done": trainer.state.global_step} | _memory()


def evaluate(*, plain: bool) -> dict[str, Any]:
    import torch

    from trainer.base import load_model, load_tokenizer, stop_tokens
    from trainer.chat import encode_prompt
    from trainer.contract import Base
    from trainer.generate import Limits, Question, answer_all

    torch.set_num_threads(1)
    base = Base("demo", "0" * 40, base_folder())
    tokenizer = load_tokenizer(base)
    model = load_model(base).eval()
    stops = stop_tokens(base, tokenizer)
    prompts = [encode_prompt(tokenizer, e["messages"][:-1], None, stops) for e in examples("shared", 64)]
    began = time.process_time()
    if plain:
        answers = [ids for first in range(0, 64, 16) for ids in _generate(model, prompts[first : first + 16], stops)]
    else:
        replies = answer_all(model, [Question(p, []) for p in prompts], Limits(stops, 8, 16), lambda done: None)
        answers = [reply.ids for reply in replies]
    return {"cpu": time.process_time() - began, "rows": 64, "answers": answers} | _memory()


def _generate(model: Any, prompts: list[list[int]], stops: frozenset[int]) -> list[list[int]]:
    import torch

    width, pad = max(map(len, prompts)), min(stops)
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
    seen = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        out = model.generate(
            input_ids=ids, attention_mask=seen, max_new_tokens=8, do_sample=False, pad_token_id=pad,
            eos_token_id=sorted(stops),
        )  # fmt: skip
    kept = []
    for line in out[:, width:].tolist():
        end = next((i for i, token in enumerate(line) if token in stops), len(line))
        kept.append(line[:end])
    return kept


def mask() -> dict[str, Any]:
    from trainer.mask_file import mask_file

    lines = [json.dumps(e) for e in examples("shared", 1000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("\n".join(lines[i % len(lines)] for i in range(MASKED_ROWS)))
        began = time.monotonic()
        count = sum(1 for _ in mask_file(path, Path(base_folder()), context=2048))
        seconds = time.monotonic() - began
    used = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"rows_per_s": count / seconds, "cpu": used, "rows": count}


def trial() -> dict[str, Any]:
    """Out of sample, five seeds: 20 steps of a trial beside the optimizer steps of the whole run, in CPU seconds."""
    from trainer.contract import TrainOptions, TrialLimits

    errors = []
    for seed in range(int(os.environ.get("TENSORANT_BENCH_SEEDS", "5"))):
        options = TrainOptions(
            epochs=1, rank=RANK, alpha=16, learning_rate=RATE, micro_batch_size=2, accumulation=1, warmup_ratio=0, seed=seed
        )  # fmt: skip
        predicted, actual = _trial_and_run(options, TrialLimits(rows=40, steps=20, seed=seed), rows=120)
        errors.append(100 * (predicted - actual) / actual)
    return {"error_pct": statistics.median(abs(error) for error in errors), "errors_pct": errors}


def _trial_and_run(options: Any, limits: Any, rows: int) -> tuple[float, float]:
    import torch

    from trainer.contract import Base
    from trainer.trial_report import run_trial

    torch.set_num_threads(1)
    base = Base("demo", "0" * 40, base_folder())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("\n".join(json.dumps(e) for e in examples("shared", rows)))
        report = run_trial(base, path, None, options, limits, clock=time.process_time)
    assert report.prediction is not None, report.missing
    return report.prediction.seconds, sum(ours("shared", rows=rows, options=options)["steps"])


def _memory() -> dict[str, float]:
    return {"rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main(who: str, data: str) -> dict[str, Any]:
    match who:
        case "ours":
            return ours(data)
        case "unpacked":
            return ours(data, packing=False)
        case "trl" | "trl_best":
            return trl(data, best=who == "trl_best")
        case "eval" | "generate":
            return evaluate(plain=who == "generate")
        case "mask":
            return mask()
        case _:
            return trial()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
