"""The work of one run: encode every row, train, and hand over a verified adapter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer import checkpoint, package
from trainer.attempt import Attempt, Ending
from trainer.base import check_revision, free_memory, load_model, load_tokenizer, precision_of, stop_tokens
from trainer.chat import Encoded, switches_of
from trainer.contract import CHECKPOINTS, BadManifest, Outcome, Phase, Plan, Split, TrainJob, verify_folder
from trainer.data import Example, Limits, encode_split, read_examples
from trainer.distributed import World, join
from trainer.errors import TrainerError
from trainer.loop import Loop, fits_of, make_optimizer
from trainer.lora import add_lora
from trainer.samples import Samples, samples_of
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train(job: TrainJob, attempt: Attempt, watch: Watchdog) -> Ending:
    if finished := finished_before(attempt):
        return finished
    check_revision(job.base)
    tokenizer = load_tokenizer(job.base)
    rows, validation = encode_rows(job, attempt, watch, tokenizer)
    world = join()
    plan = Plan.of(len(rows), job.options, world.size)
    if plan.total_steps == 0:
        raise TrainerError("nothing_to_train", what=f"{len(rows)} rows and {job.options.epochs} epochs make no step")
    loop = _ready_loop(job, attempt, watch, rows, validation, plan, world)
    if job.options.evaluate_at_checkpoints:
        loop.samples = make_samples(job, attempt, tokenizer)
    watch.enter(Phase.TRAINING)
    loop.run()
    watch.check()
    if world.rank:
        return Ending(Outcome.DONE, step=loop.progress.step, total_steps=plan.total_steps)
    watch.enter(Phase.PACKAGING)
    _take_best(job, attempt, loop)
    unchecked = write_adapter(job, attempt, tokenizer, loop)
    step = loop.progress.step
    # The fresh process that checks the adapter needs room for its own copy of the base.
    del loop
    free_memory()
    package.publish(unchecked, job)
    attempt.journal.event("packaged", adapter=attempt.keys.adapter)
    return Ending(Outcome.DONE, step=step, total_steps=plan.total_steps, adapter=attempt.keys.adapter)


def finished_before(attempt: Attempt) -> Ending | None:
    """An earlier boot may have died between the adapter's manifest and the result: never train again."""
    try:
        facts = verify_folder(attempt.volume / attempt.keys.adapter).facts
    except BadManifest:
        return None
    step = int(facts.get("step") or 0)
    return Ending(Outcome.DONE, step=step, total_steps=step, adapter=attempt.keys.adapter)


def encode_rows(
    job: TrainJob, attempt: Attempt, watch: Watchdog, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[Encoded], list[Encoded]]:
    """Training and validation; of a trial only as many validation rows as it takes."""
    limits = Limits(stop_tokens(job.base, tokenizer), job.options.context_length)

    def tick(done: int, total: int) -> None:
        watch.update(done=done, total=total)
        watch.check()

    splits = {Split.TRAIN: job.train, Split.VALIDATION: job.validation}
    rows, validation = (
        encode_split(tokenizer, split, _examples(job, attempt, key), limits, tick) if key else []
        for split, key in splits.items()
    )
    attempt.journal.event(
        "rows_prepared", train=len(rows), validation=len(validation), switches=dict(switches_of(tokenizer))
    )
    return rows, validation


def _examples(job: TrainJob, attempt: Attempt, key: str) -> list[Example]:
    found = read_examples(attempt.volume / key, merges_system=job.options.merge_system)
    return found[: job.trial.validation_rows] if job.trial and key == job.validation else found


def make_samples(job: TrainJob, attempt: Attempt, tokenizer: PreTrainedTokenizerBase) -> Samples:
    validation = _examples(job, attempt, job.validation) if job.validation else []
    return samples_of(job, tokenizer, stop_tokens(job.base, tokenizer), validation, attempt.outputs)


def _take_best(job: TrainJob, attempt: Attempt, loop: Loop) -> None:
    """Put the best evaluation's adapter into the model; the last one's stays where the best is gone."""
    best = loop.progress.best_step
    if job.options.adapter_from != "best" or best in (None, loop.progress.step):
        return
    for folder in _checkpoint_folders(job, attempt):
        if checkpoint.load_adapter(folder / checkpoint.name_of(best), loop.model):
            attempt.journal.event("adapter_from_best", step=best)
            return
    attempt.journal.event("best_checkpoint_missing", step=best)
    loop.progress.best_step = loop.progress.step


def _checkpoint_folders(job: TrainJob, attempt: Attempt) -> list[Path]:
    return [attempt.shared / CHECKPOINTS, *(attempt.volume / key / CHECKPOINTS for key in job.resume_from)]


def _ready_loop(
    job: TrainJob,
    attempt: Attempt,
    watch: Watchdog,
    rows: list[Encoded],
    validation: list[Encoded],
    plan: Plan,
    world: World,
) -> Loop:
    """Model, optimizer and the progress of the newest checkpoint, if there is one."""
    options = job.options
    model = add_lora(load_model(job.base, quantised=options.method == "qlora"), options)
    if world.rank == 0:
        # Beside the checkpoints: with it each of them is an adapter.
        package.write_config(attempt.shared / CHECKPOINTS, model, job.base)
    watch.check()
    optimizer = make_optimizer(model, options)
    attempt.journal.event(
        "model_loaded", trained_parameters=sum(p.numel() for p in model.parameters() if p.requires_grad)
    )
    found = checkpoint.newest(_checkpoint_folders(job, attempt), fits_of(len(rows), options, world.size))
    progress = checkpoint.Progress()
    if found is not None:
        progress = checkpoint.restore(found, model, optimizer)
        source = found.relative_to(attempt.volume).as_posix()
        attempt.journal.event("resumed", step=progress.step, checkpoint=source)
    return Loop(model, rows, validation, options, plan, optimizer, progress, attempt, watch, world)


def write_adapter(job: TrainJob, attempt: Attempt, tokenizer: PreTrainedTokenizerBase, loop: Loop) -> package.Unchecked:
    progress = loop.progress
    is_best = job.options.adapter_from == "best" and progress.best_step is not None
    step = progress.best_step if is_best and progress.best_step else progress.step
    facts: dict[str, str | int | float | bool | None] = {
        "step": step,
        "loss": progress.losses[step - 1],
        "validation_loss": progress.validations.get(str(step)),
        "adapter_from": job.options.adapter_from,
        "base_precision": precision_of(loop.model.get_base_model()),  # type: ignore[arg-type]
        "method": job.options.method,
        "merge_system": job.options.merge_system,
        "purpose": "trial" if job.trial else "full",
    }
    prompts = [row.ids[: max(1, row.trained[0][0])] for row in loop.rows[: package.PROMPTS]]
    probe = package.probe(loop.model, prompts, attempt.outputs / package.PROBE)
    return package.write(attempt.volume / attempt.keys.adapter, job, loop.model, tokenizer, facts=facts, probe=probe)
