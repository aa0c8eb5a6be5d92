"""Makes the adapter's folder, and publishes it only after a fresh process has loaded it and given the same answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.chat import switches_of
from trainer.checkpoint import ADAPTER, adapter_tensors, write_tensors
from trainer.contract import MANIFEST, Base, TrainJob, seal_folder, sync_folder, write_file
from trainer.errors import TrainerError

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PROMPTS = 2
PROBE = "probe.safetensors"
"""Prompts with the logits that the trainer itself found for their next token."""
CLOSE = {"torch.float32": 1e-4, "torch.bfloat16": 0.25}
"""Largest difference of two logits; half precision rounds in steps of up to 0.125 at logits of 16 to 32."""
SHOWN_LINES = 3
DIAGNOSTIC = (
    "Made by a small training trial of Tensorant: a few steps on a few rows, to measure time and memory. It says nothing "
    "about quality and is not for use."
)
Facts = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Unchecked:
    """An adapter that lies beside its place until it has been checked."""

    aside: Path
    target: Path
    probe: Path


def write(
    target: Path,
    job: TrainJob,
    model: PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    facts: Facts,
    probe: Path,
) -> Unchecked:
    aside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    tensors = adapter_tensors(model)
    _check_tensors(tensors, layers=sum(1 for name in model.state_dict() if ".lora_A." in name))
    write_tensors(aside / ADAPTER, tensors)
    write_config(aside, model, job.base)
    tokenizer.save_pretrained(aside)
    write_file(aside / "README.md", _model_card(job, facts))
    _check_no_local_path(aside, job.base)
    seal_folder(
        aside, {**facts, "base": job.base.repo_id, "revision": job.base.revision, "switches": _switches(tokenizer)}
    )
    return Unchecked(aside, target, probe)


def publish(unchecked: Unchecked, job: TrainJob) -> None:
    """Move the folder to its place once a process that knows nothing of the training agrees with it."""
    request = {"base": job.base.folder, "adapter": str(unchecked.aside), "probe": str(unchecked.probe)}
    arguments = [sys.executable, "-m", "trainer", "verify-adapter", *(f"--{k}={v}" for k, v in request.items())]
    arguments += ["--quantised"] if job.options.method == "qlora" else []
    root = Path(__file__).resolve().parent.parent
    ended = subprocess.run(arguments, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        print(ended.stderr, file=sys.stderr)
        last = " ".join(ended.stderr.strip().splitlines()[-SHOWN_LINES:])
        raise TrainerError("adapter_invalid", what=f"loaded in a fresh process it failed ({last})")
    shutil.rmtree(unchecked.target, ignore_errors=True)
    unchecked.aside.rename(unchecked.target)
    sync_folder(unchecked.target.parent)
    unchecked.probe.unlink()


def probe(model: PeftModel, prompts: Sequence[Sequence[int]], path: Path) -> Path:
    """Store what the trained model itself says after each prompt."""
    import torch

    tensors: dict[str, torch.Tensor] = {}
    for i, prompt in enumerate(prompts):
        ids = torch.tensor([list(prompt)])
        tensors |= {f"{i}.ids": ids, f"{i}.logits": _next_logits(model, ids)}
    write_tensors(path, tensors)
    return path


def verify(base: Base, adapter: Path, probe: Path, *, quantised: bool) -> None:
    """In the fresh process: load the adapter on its base and compare."""
    from safetensors.torch import load_file

    from trainer.base import load_model
    from trainer.lora import load_lora

    model: PreTrainedModel = load_model(base, quantised=quantised)
    tuned = load_lora(model, adapter)
    stored = load_file(probe)
    for name in sorted(n for n in stored if n.endswith(".ids")):
        wanted = stored[name.replace(".ids", ".logits")]
        worst = (_next_logits(tuned, stored[name]) - wanted).abs().max().item()
        if not worst <= CLOSE[str(model.dtype)]:
            raise TrainerError("adapter_invalid", what=f"its answers differ from the trainer's by {worst:.2g}")


def _next_logits(model: PeftModel, ids: torch.Tensor) -> torch.Tensor:
    import torch

    model.eval()
    with torch.no_grad():
        logits: torch.Tensor = model.get_base_model()(
            input_ids=ids.to(model.device), logits_to_keep=1, use_cache=False
        ).logits
    return logits[0, -1].float().cpu()


def _check_tensors(tensors: Mapping[str, torch.Tensor], *, layers: int) -> None:
    import torch

    if layers == 0 or len(tensors) != 2 * layers:
        raise TrainerError("adapter_invalid", what=f"it holds {len(tensors)} tensors instead of {2 * layers}")
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise TrainerError("adapter_invalid", what=f"{name} holds numbers that are not finite")
    if not any(tensor.any() for name, tensor in tensors.items() if ".lora_B." in name):
        raise TrainerError("adapter_invalid", what="nothing was learned: every lora_B matrix is still zero")


def write_config(aside: Path, model: PeftModel, base: Base) -> None:
    """What makes matrices an adapter. PEFT would write the local folder that the base was loaded from, and no revision."""
    config = copy(model.peft_config["default"])
    config.base_model_name_or_path, config.revision = base.repo_id, base.revision
    config.inference_mode = True
    config.save_pretrained(str(aside))


def _check_no_local_path(aside: Path, base: Base) -> None:
    for path in sorted(aside.rglob("*")):
        if path.suffix in (".json", ".md", ".jinja") and base.folder in path.read_text():
            raise TrainerError("adapter_invalid", what=f"{path.name} holds a path of this machine")


def _switches(tokenizer: PreTrainedTokenizerBase) -> str:
    return json.dumps(dict(switches_of(tokenizer)))


def _model_card(job: TrainJob, facts: Facts) -> str:
    options = job.options
    rows = {
        "Base model": f"{job.base.repo_id} at {job.base.revision}",
        "Method": f"{options.method}, rank {options.rank}, alpha {options.alpha}, dropout {options.dropout}",
        "Training": f"{facts['step']} steps of a trial"
        if job.trial
        else f"{options.epochs} epochs, {facts['step']} steps",
        "Rows of a step": options.micro_batch_size * options.accumulation,
        "Learning rate": f"{options.learning_rate}, {options.schedule}, seed {options.seed}",
        "Last training loss": facts["loss"],
        "Validation loss": facts["validation_loss"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    header = f"---\nbase_model: {job.base.repo_id}\nlibrary_name: peft\ntags: [lora]\n---\n"
    title = "Diagnostic LoRA adapter" if job.trial else "LoRA adapter"
    trained = DIAGNOSTIC if job.trial else "Trained with Tensorant."
    files = f"`{ADAPTER}` loads with PEFT on the base model named above; `{MANIFEST}` holds the hash of every file."
    return f"{header}\n# {title}\n\n{trained}\n\n| | |\n| --- | --- |\n{table}\n\n{files}\n"
