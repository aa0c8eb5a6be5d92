"""The work of one run: encode every row, train, and hand over a verified adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import checkpoint, package
from trainer.attempt import Attempt, Ending
from trainer.base import free_memory, load_model, load_tokenizer, stop_tokens
from trainer.chat import Encoded, switches_of
from trainer.contract import CHECKPOINTS, BadManifest, Outcome, Phase, Plan, Split, TrainJob, verify_folder
from trainer.data import Limits, encode_split, read_examples
from trainer.errors import TrainerError
from trainer.loop import Loop, fits_of, make_optimizer
from trainer.lora import add_lora
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train(job: TrainJob, attempt: Attempt, watch: Watchdog) -> Ending:
    if finished := _finished_before(attempt):
        return finished
    tokenizer = load_tokenizer(job.base)
    rows, validation = _encode(job, attempt, watch, tokenizer)
    plan = Plan.of(len(rows), job.options)
    if plan.total_steps == 0:
        raise TrainerError("nothing_to_train", what=f"{len(rows)} rows and {job.options.epochs} epochs make no step")
    loop = _ready_loop(job, attempt, watch, rows, validation, plan)
    watch.enter(Phase.TRAINING)
    loop.run()
    watch.check()
    watch.enter(Phase.PACKAGING)
    unchecked = _write_adapter(job, attempt, tokenizer, loop)
    # The fresh process that checks the adapter needs room for its own copy of the base.
    del loop
    free_memory()
    package.publish(unchecked, job)
    attempt.journal.event("packaged", adapter=attempt.keys.adapter)
    return Ending(Outcome.DONE, step=plan.total_steps, total_steps=plan.total_steps, adapter=attempt.keys.adapter)


def _finished_before(attempt: Attempt) -> Ending | None:
    """An earlier boot may have died between the adapter's manifest and the result: never train again."""
    try:
        facts = verify_folder(attempt.volume / attempt.keys.adapter).facts
    except BadManifest:
        return None
    step = int(facts.get("step") or 0)
    return Ending(Outcome.DONE, step=step, total_steps=step, adapter=attempt.keys.adapter)


def _encode(
    job: TrainJob, attempt: Attempt, watch: Watchdog, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[Encoded], list[Encoded]]:
    limits = Limits(stop_tokens(job.base, tokenizer), job.options.context_length)

    def tick(done: int, total: int) -> None:
        watch.update(done=done, total=total)
        watch.check()

    splits = {Split.TRAIN: job.train, Split.VALIDATION: job.validation}
    rows, validation = (
        encode_split(tokenizer, split, read_examples(attempt.volume / key), limits, tick) if key else []
        for split, key in splits.items()
    )
    attempt.journal.event(
        "rows_prepared", train=len(rows), validation=len(validation), switches=dict(switches_of(tokenizer))
    )
    return rows, validation


def _ready_loop(
    job: TrainJob, attempt: Attempt, watch: Watchdog, rows: list[Encoded], validation: list[Encoded], plan: Plan
) -> Loop:
    """Model, optimizer and the progress of the newest checkpoint, if there is one."""
    options = job.options
    model = add_lora(load_model(job.base, quantised=options.method == "qlora"), options)
    watch.check()
    optimizer = make_optimizer(model, options)
    attempt.journal.event(
        "model_loaded", trained_parameters=sum(p.numel() for p in model.parameters() if p.requires_grad)
    )
    folders = [attempt.outputs / CHECKPOINTS, *(attempt.volume / key / CHECKPOINTS for key in job.resume_from)]
    found = checkpoint.newest(folders, fits_of(len(rows), options))
    progress = checkpoint.Progress()
    if found is not None:
        progress = checkpoint.restore(found, model, optimizer)
        source = found.relative_to(attempt.volume).as_posix()
        attempt.journal.event("resumed", step=progress.step, checkpoint=source)
    return Loop(model, rows, validation, options, plan, optimizer, progress, attempt, watch)


def _write_adapter(
    job: TrainJob, attempt: Attempt, tokenizer: PreTrainedTokenizerBase, loop: Loop
) -> package.Unchecked:
    progress = loop.progress
    facts: dict[str, str | int | float | bool | None] = {
        "step": progress.step,
        "loss": progress.losses[-1],
        "validation_loss": progress.validations.get(str(progress.step)),
    }
    prompts = [row.ids[: max(1, row.trained[0][0])] for row in loop.rows[: package.PROMPTS]]
    probe = package.probe(loop.model, prompts, attempt.outputs / package.PROBE)
    return package.write(attempt.volume / attempt.keys.adapter, job, loop.model, tokenizer, facts=facts, probe=probe)
