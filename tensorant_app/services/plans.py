"""How much work and disk a training run is, and what is wrong with it, read from a file before anything is rented."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.wording import count
from trainer.contract import Plan, Split, TrainOptions

COUNTS = ("rows", "micro_batch", "grad_accum", "epochs")
SERVER_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The limits that vLLM can be started with."""
HEADS = ("lm_head", "embed_out")
_SAVE = re.compile(r"every\s*(\d*)\s*(epoch|step)s?")


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The words of `tensorant plan --json`. Counts are None where the file doesn't say enough."""

    micro_batches_per_epoch: int | None
    steps_per_epoch: int | None
    total_steps: int | None
    last_micro_batch_rows: int | None
    checkpoint_bytes_needed: int | None
    """If every checkpoint of the run were kept whole."""
    errors: tuple[str, ...]
    """A run with one of them is not launched."""
    warnings: tuple[str, ...]


def options_of(settings: RunSettings, *, merge_system: bool = False) -> TrainOptions:
    """The trainer's part of a run's settings; `merge_system` is the version's."""
    values = settings.as_values()
    del values["maximum_runtime_hours"]
    return TrainOptions(**values, merge_system=merge_system)


def sequences_of(report: Mapping[str, Any]) -> int:
    """What a version's training split gives the optimizer, by its stored report: the rows that `Plan.of` counts."""
    counted = report.get("mask", {}).get("sequences", {}).get(Split.TRAIN.value)
    return int(counted or report.get("rows", {}).get(Split.TRAIN.value, 0))


def read_plan(path: Path) -> PlanReport:
    values = _read(path)
    base = values.get("base")
    return report(values, _read(path.parent / str(base)) if base else {})


def report(values: Mapping[str, Any], base: Mapping[str, Any]) -> PlanReport:
    """`base` describes the base model, with its `module_names`."""
    errors = [*_wrong_counts(values), *_wrong_modules(values, base), *_wrong_kind(values)]
    warnings = _rank_notes(values)
    plan = None if errors or any(name not in values for name in COUNTS) else _plan(values)
    needed, disk_error, disk_warning = _disk(values, plan)
    errors += disk_error
    warnings += [*_warmup_notes(values, plan), *disk_warning]
    return PlanReport(
        micro_batches_per_epoch=plan.micro_batches_per_epoch if plan else None,
        steps_per_epoch=plan.steps_per_epoch if plan else None,
        total_steps=plan.total_steps if plan else None,
        last_micro_batch_rows=plan.last_micro_batch_rows if plan else None,
        checkpoint_bytes_needed=needed,
        errors=tuple(errors),
        warnings=tuple(warnings),
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Invalid({"file": f"{path} could not be read as JSON: {error}."}) from error
    if not isinstance(value, dict):
        raise Invalid({"file": f"{path} must hold one JSON object."})
    return value


def _plan(values: Mapping[str, Any]) -> Plan:
    options = TrainOptions(
        micro_batch_size=values["micro_batch"], accumulation=values["grad_accum"], epochs=values["epochs"]
    )
    return Plan.of(values["rows"], options, world=values.get("gpus", 1))


def _wrong_counts(values: Mapping[str, Any]) -> list[str]:
    given = [name for name in (*COUNTS, "gpus") if name in values]
    wrong = [name for name in given if type(values[name]) is not int or values[name] < 1]
    return [f"{name} must be a whole number of at least 1, not {json.dumps(values[name])}." for name in wrong]


def _wrong_modules(values: Mapping[str, Any], base: Mapping[str, Any]) -> list[str]:
    wanted, names = values.get("target_modules"), base.get("module_names")
    if not wanted or not names:
        return []
    existing = list(dict.fromkeys(str(name).rpartition(".")[2] for name in names))
    missing = [name for name in wanted if name not in existing]
    if not missing:
        return []
    there = ", ".join(name for name in existing if name not in HEADS)
    heads = [name for name in existing if name in HEADS]
    aside = f" ({', '.join(heads)} is there too and is not adapted)" if heads else ""
    return [
        f"The base model has no layer called {', '.join(missing)}. Its linear layers are {there}{aside}. "
        "Leave target_modules out, and every linear layer of the language model is adapted."
    ]


def _wrong_kind(values: Mapping[str, Any]) -> list[str]:
    vision, images = values.get("base_kind") == "vision", values.get("version_has_images")
    errors = []
    if vision and images is False:
        errors.append("A vision model needs a dataset version with images, and this version has none.")
    if not vision and "base_kind" in values and images:
        errors.append("This version has images, and a text model cannot read them. Choose a vision model.")
    if vision and values.get("method") == "qlora":
        errors.append("QLoRA is not offered for vision models. Choose LoRA.")
    return errors


def _rank_notes(values: Mapping[str, Any]) -> list[str]:
    rank, limit = values.get("rank"), values.get("max_lora_rank")
    if not isinstance(rank, int) or not isinstance(limit, int) or rank <= limit:
        return []
    fitting = next((accepted for accepted in SERVER_RANKS if accepted >= rank), None)
    way = f"start it with a limit of {fitting}" if fitting else "no server accepts so high a rank; merge the adapter"
    return [f"The rank of {rank} is above the server's limit of {limit}: {way}, or choose a rank of at most {limit}."]


def _warmup_notes(values: Mapping[str, Any], plan: Plan | None) -> list[str]:
    if plan is None:
        return []
    warmup = values.get("warmup_steps", round(plan.total_steps * values.get("warmup_ratio", 0)))
    if warmup < plan.total_steps:
        return []
    rate, last = values.get("learning_rate", TrainOptions().learning_rate), plan.total_steps
    before = f"{rate * (last - 1) / warmup:.3e} at step {last - 1} and " if last > 1 else ""
    return [
        f"The warm-up of {warmup:,} steps is not shorter than the run of {last:,} steps. The learning rate would never reach "
        f"{rate:g}: it would be {before}{rate * last / warmup:.3e} ({last / warmup:.0%}) at the last step, {last}."
    ]


def _disk(values: Mapping[str, Any], plan: Plan | None) -> tuple[int | None, Sequence[str], Sequence[str]]:
    sizes, free = values.get("checkpoint_bytes"), values.get("volume_free_bytes")
    if plan is None or not isinstance(sizes, Mapping):
        return None, (), ()
    number, each = _checkpoints(values, plan), sum(sizes.values())
    needed = number * each
    if free is None or needed <= free:
        return needed, (), ()
    optimizer = sizes.get("optimizer", 0)
    # The old optimizer state goes only after the new checkpoint has been verified, so two exist for a while.
    least = number * (each - optimizer) + min(number, 2) * optimizer
    whole = f"{needed:,} bytes are needed if {count(number, 'checkpoint')} of {each:,} bytes"
    kept = f"{whole} {'is' if number == 1 else 'are all'} kept whole, and {free:,} are free"
    if least > free:
        return (
            needed,
            [
                f"{kept}. Even with one old optimizer state at a time {least:,} are needed: save less often, or use a larger disk."
            ],
            (),
        )
    room = f"enough for {free // each}. Older checkpoints give up their optimizer state, which brings the need to {least:,} bytes"
    return needed, (), [f"{kept}, {room}."]


def _checkpoints(values: Mapping[str, Any], plan: Plan) -> int:
    """The final step always has one."""
    found = _SAVE.search(str(values.get("save", "every epoch")))
    every, unit = (int(found[1] or 1), found[2]) if found else (1, "epoch")
    return -(-(plan.total_steps if unit == "step" else values["epochs"]) // max(every, 1))
