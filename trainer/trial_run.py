"""The work of a small training trial on a machine: measure, write the report, hand over an adapter that only diagnoses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import package
from trainer.attempt import Attempt, Ending
from trainer.base import check_revision, free_memory, load_model, load_tokenizer
from trainer.checkpoint import Progress
from trainer.contract import TRIAL, Outcome, Phase, TrainJob, dump, write_file
from trainer.distributed import World, join
from trainer.errors import TrainerError, failure_of
from trainer.loop import Loop
from trainer.lora import add_lora
from trainer.step import make_optimizer
from trainer.train import encode_rows, finished_before, make_samples, write_adapter
from trainer.trial_report import Measured, choose, measure
from trainer.watchdog import Halt, Watchdog

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trainer.chat import Encoded


def try_training(job: TrainJob, attempt: Attempt, watch: Watchdog) -> Ending:
    """One attempt of a trial. At its time limit it has failed, and `trial.json` says what it found till then."""
    if job.trial is None:
        raise TrainerError("job_unreadable", what="the job of a trial has no bounds")
    if finished := finished_before(attempt):
        return finished
    found = Measured(job.trial.capped(), began=attempt.began)
    try:
        return _tried(job, attempt, watch, found)
    except Halt as halt:
        if halt.outcome is not Outcome.OVERRUN or attempt.rank:  # the first process tells of the time that was over
            raise
        found.is_over_time = True
        failure = TrainerError("trial_over_time", minutes=f"{found.limits.minutes:g}").failure
    except Exception as error:
        found.failure = failure_of(error).message.rstrip(".")
        _tell(attempt, found)
        raise
    _tell(attempt, found)
    attempt.journal.event("trial_over_time", stage=found.stage, steps=len(found.costs))
    return Ending(Outcome.FAILED, failure, step=len(found.costs), total_steps=found.limits.steps)


def _tried(job: TrainJob, attempt: Attempt, watch: Watchdog, found: Measured) -> Ending:
    check_revision(job.base)
    tokenizer = load_tokenizer(job.base)
    rows, held = encode_rows(job, attempt, watch, tokenizer)
    loop = _ready_loop(job, attempt, watch, found, rows, held, join())
    watch.enter(Phase.TRAINING)
    measure(found, loop, rows, tell=lambda: _tell(attempt, found))
    if not found.is_whole:
        raise Halt(watch.wanted() or Outcome.OVERRUN)
    _tell(attempt, found)
    _validate(job, attempt, watch, found, loop, tokenizer)
    _tell(attempt, found)
    if loop.world.rank:
        return Ending(Outcome.DONE, step=loop.progress.step, total_steps=loop.progress.step)
    watch.enter(Phase.PACKAGING)
    unchecked = write_adapter(job, attempt, tokenizer, loop)
    step = loop.progress.step
    del loop
    free_memory()
    package.publish(unchecked, job)
    attempt.journal.event("packaged", adapter=attempt.keys.adapter)
    return Ending(Outcome.DONE, step=step, total_steps=step, adapter=attempt.keys.adapter)


def _ready_loop(
    job: TrainJob,
    attempt: Attempt,
    watch: Watchdog,
    found: Measured,
    rows: list[Encoded],
    held: list[Encoded],
    world: World,
) -> Loop:
    """Nothing is taken up from an earlier attempt: a trial is short, and its first steps are what it measures."""
    options = job.options
    chosen, plan = choose(found, rows, held, options, world.size)
    found.stage = "the model was loaded"
    model = add_lora(load_model(job.base, quantised=options.method == "qlora"), options)
    watch.check()
    attempt.journal.event(
        "model_loaded", trained_parameters=sum(p.numel() for p in model.parameters() if p.requires_grad)
    )
    return Loop(model, chosen, held, options, plan, make_optimizer(model, options), Progress(), attempt, watch, world)


def _validate(
    job: TrainJob,
    attempt: Attempt,
    watch: Watchdog,
    found: Measured,
    loop: Loop,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """The loss of the validation rows and, where the run asks for it, answers; none of it is in the prediction."""
    loop.model.eval()
    figures: dict[str, float] = {}
    if loop.validation:
        found.validation_loss = figures["validation_loss"] = loop.validation_loss()
        watch.update(validation_loss=found.validation_loss)
    if job.options.evaluate_at_checkpoints and not loop.world.rank:
        figures |= make_samples(job, attempt, tokenizer).take(loop.model, loop.progress.step, watch.check)
    if figures and found.plan:
        step = loop.progress.step
        attempt.journal.metric(step, step / found.plan.steps_per_epoch, **figures)


def _tell(attempt: Attempt, found: Measured) -> None:
    write_file(attempt.outputs / TRIAL, dump(found.report()))
