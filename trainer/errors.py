"""What can go wrong in training, as a code for programs and whole sentences for people."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from trainer.contract import Failure


@dataclass(frozen=True, slots=True)
class Wording:
    """`message` is filled with the facts of the case; `advice` says what to do next."""

    message: str
    advice: str
    exit_code: int = 1


WORDINGS: Mapping[str, Wording] = {
    "out_of_memory": Wording(
        "The memory of this machine was not enough: {text}.",
        "Halve the micro batch size and double the accumulation, or take a machine with more memory.",
        exit_code=30,
    ),
    "out_of_memory_in_training": Wording(
        "The memory was not enough in training at step {place}, with half the micro batch too: {text}.",
        "Choose a shorter context, QLoRA, or a GPU with more memory; {kept}.",
        exit_code=31,
    ),
    "out_of_memory_in_validation": Wording(
        "The memory was not enough in validation after step {place}, with half the micro batch too; training itself fitted: {text}.",
        "Choose a smaller micro batch, a shorter context, or a GPU with more memory; {kept}.",
        exit_code=32,
    ),
    "not_finite": Wording(
        "The {what} was not a finite number at step {step}, which had {learned} trained tokens, so training stopped before "
        "the weights were damaged.",
        "Lower the learning rate, lengthen the warm-up, and look at the rows of this step: {rows}.",
        exit_code=40,
    ),
    "all_masked": Wording(
        "Step {step} has no token to learn: 0 trained tokens in its rows, and {gradient}.",
        "Check the replies of rows {rows} with `tensorant data mask`.",
        exit_code=12,
    ),
    "image_error": Wording(
        "{text}", "Correct or remove these images, and freeze a new version of the dataset.", exit_code=11
    ),
    "wrong_revision": Wording(
        "The folder holds the base model {repo_id} at {found}, and the run was planned with {wanted}.",
        "Download the planned revision again, or configure a new run with the one that is there.",
        exit_code=24,
    ),
    "diverged": Wording(
        "The smoothed loss was more than three times its best ({best}) for {steps} steps, at step {step} {smoothed}.",
        "Lower the learning rate to a third and start again; the checkpoints written before are kept.",
        exit_code=41,
    ),
    "row_error": Wording(
        "{text}", "Correct or remove these rows, and freeze a new version of the dataset.", exit_code=10
    ),
    "base_missing": Wording(
        "The base model {repo_id} is not complete in {folder}: {what}.",
        "Download the base model again and check that its revision holds safetensors weights.",
        exit_code=20,
    ),
    "base_unsafe": Wording(
        "The base model {repo_id} was refused: {what}.",
        "Choose a revision with safetensors weights and an architecture of transformers; a model's code is never run.",
        exit_code=21,
    ),
    "no_tokenizer": Wording(
        "The base model {repo_id} has no tokenizer that can be read: {what}.",
        "Choose a base model whose folder holds tokenizer.json.",
        exit_code=22,
    ),
    "no_template": Wording(
        "The tokenizer of {repo_id} has no chat template, so conversations cannot be put in the model's own format.",
        "Choose the instruct variant of this base model.",
        exit_code=23,
    ),
    "gpu_too_old": Wording(
        "This machine's {name} has compute capability {have}, and training in bfloat16 needs 8.0 or higher.",
        "Choose a GPU of the Ampere generation or newer, such as A10G, A100, L4 or H100.",
        exit_code=33,
    ),
    "no_gpu": Wording(
        "The machine came up with {have} of the {wanted} GPUs that were asked for, so nothing was trained on it.",
        "Launch again: another host is given then. Its cost stops when it is released.",
        exit_code=34,
    ),
    "nothing_to_train": Wording(
        "There is nothing to train: {what}.", "Check the training split and the number of epochs.", exit_code=13
    ),
    "disk_full": Wording(
        "The disk was full while writing {path}; the last complete checkpoint is kept.",
        "Free disk space or choose a larger disk, then resume.",
        exit_code=50,
    ),
    "adapter_invalid": Wording(
        "The adapter did not pass its checks: {what}.",
        "The last checkpoint is kept. Resume the run to package it again; report it with the log if it fails again.",
        exit_code=60,
    ),
    "restarted_too_often": Wording(
        "The machine started this attempt {boots} times without reaching its end.",
        "Read the log of the earlier starts: the process was most likely killed for its memory use.",
        exit_code=70,
    ),
    "rank_lost": Wording(
        "The process on GPU {rank} of {size} ended without a word, so the others could not go on.",
        "Read the training log: it was most likely killed for its memory use. The last complete checkpoint is kept.",
        exit_code=72,
    ),
    "trial_over_time": Wording(
        "The trial was not finished within its {minutes} minutes; its report holds what was measured.",
        "Allow more minutes, fewer rows or a shorter context.",
        exit_code=71,
    ),
    "upload_refused": Wording(
        "The file is not an adapter that can be used: {what}.",
        "Upload the adapter.zip that the trainer wrote, unchanged.",
        exit_code=61,
    ),
    "job_unreadable": Wording(
        "The job file could not be read: {what}.",
        "The console and the trainer are probably of different versions; install the same version of both.",
        exit_code=2,
    ),
    "crashed": Wording(
        "{text}", "This is a fault of the trainer. Read the log, and report it with the log's last lines.", exit_code=1
    ),
}


def exit_code_of(code: str) -> int:
    """0 is an end as wished (also paused, stopped and overrun); what a shell sees otherwise."""
    return WORDINGS[code].exit_code


class TrainerError(Exception):
    """An expected end, told by a code of `WORDINGS` and the facts that fill its sentence."""

    def __init__(self, code: str, **facts: object) -> None:
        wording = WORDINGS[code]
        self.code = code
        self.facts = facts
        self.failure = Failure(code, wording.message.format(**facts), wording.advice.format_map(facts))
        super().__init__(self.failure.message)


def failure_of(error: BaseException) -> Failure:
    """The failure that a person reads for any exception."""
    if isinstance(error, TrainerError):
        return error.failure
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else "no details"
    if is_out_of_memory(error):
        return TrainerError("out_of_memory", text=first_line.rstrip(".")).failure
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "No space left on device" in first_line:  # safetensors raises its own class, with this text
        return TrainerError("disk_full", path=getattr(error, "filename", None) or "a file").failure
    return TrainerError("crashed", text=f"{type(error).__name__}: {first_line}").failure


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA raises its own class, the CPU allocator only a RuntimeError. Told by name: torch isn't imported here."""
    if isinstance(error, MemoryError):
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    return "OutOfMemoryError" in names or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
