"""The form of a run: every field of runs.md §1 with its label, default, range and reason, and what is typed into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from tensorant_app.domain import place_form, trials
from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.form_fields import OFF, ON, FormField, Section
from tensorant_app.domain.hyperparameters import CHOICES, RunSettings, show_number
from tensorant_app.domain.hyperparameters import RANGES as RUN_RANGES
from tensorant_app.domain.place_form import COUNTS, read_placement
from tensorant_app.domain.runs import RunPurpose
from tensorant_app.domain.trials import TrialSettings

NAME, PURPOSE = "name", "purpose"
RANGES = {**RUN_RANGES, **trials.RANGES}
LONGEST_TEXT = 200
"""Characters kept of one field."""


_DEFAULTS: Mapping[str, Any] = {**RunSettings().as_values(), **TrialSettings().as_values()}
_LABELS = {
    "lora": "LoRA",
    "qlora": "QLoRA",
    "cosine": "Cosine",
    "linear": "Linear",
    "constant": "Constant",
    "epochs": "By epochs",
    "steps": "By steps",
    "last": "Last checkpoint",
    "best": "Best validation loss",
}
_S = Section


def _setting(name: str, section: Section, why: str, *, unit: str = "", hint: str = "") -> FormField:
    """A field that `RunSettings` holds: label, default and range are said there."""
    value = _DEFAULTS[name]
    if name in RANGES:
        allowed = RANGES[name]
        words = hint or f"{show_number(allowed.low)} – {show_number(allowed.high)}"
        return FormField(name, allowed.label, section, show_number(value), words, why, unit)
    label, choices = CHOICES[name]
    pairs = tuple((write_choice(choice), _LABELS.get(str(choice), "")) for choice in choices)
    return FormField(name, label, section, write_choice(value), hint, why, choices=pairs)


def _limit(name: str, why: str, off_because: str) -> FormField:
    """A bound of a rented machine: label, default and range are said in `place_form`."""
    one = place_form.LIMITS[name]
    return FormField(name, one.label, _S.LIMITS, one.default, one.words, why, one.unit, (), off_because, is_rented=True)


def _further(name: str, label: str, when: str) -> FormField:
    """One more GPU type for a run that waits for capacity."""
    why = f"{when}each choice in its turn, at its own price, within the list-price limit."
    off = "This computer is always in stock."
    return FormField(name, label, _S.LIMITS, hint="With Wait for capacity", why=why, off_because=off, is_rented=True)


def write_choice(value: str | bool) -> str:
    return (ON if value else OFF) if isinstance(value, bool) else value


FIELDS: tuple[FormField, ...] = (
    FormField(
        PURPOSE,
        "Run purpose",
        _S.DATA,
        "full",
        why="A trial trains a few steps on a few rows: it shows that everything works, and measures what the full run of "
        "these settings would take in time and memory. Its adapter is not for use.",
        choices=(("full", "Full training run"), ("trial", "Small training trial")),
    ),
    FormField("version", "Dataset version", _S.DATA, hint="A frozen version"),
    FormField("baseline", "Completed baseline", _S.DATA, hint="Your adapter is compared with it"),
    _setting(
        "trial_rows",
        _S.TRIAL,
        "A sample drawn by the seed, to which the longest rows are added; those are trained first, so that memory shows "
        "its limit at once. A smaller version gives the rows it has.",
    ),
    _setting(
        "trial_validation_rows",
        _S.TRIAL,
        "Measured once, after the last step. Time for them is not in the prediction.",
    ),
    _setting(
        "trial_steps",
        _S.TRIAL,
        "Each is timed. The first two warm the machine up, and more of them make the prediction narrower.",
    ),
    _setting(
        "trial_seed",
        _S.TRIAL,
        "The same version and seed give the same rows.",
        hint="0 – 2,147,483,647",
    ),
    _setting(
        "trial_minutes",
        _S.TRIAL,
        "From the call for the machine. Downloading a model counts too and can take the whole of it. At the limit the "
        "trial ends as Failed, with a report of what was measured.",
        unit="min",
    ),
    _setting(
        "method",
        _S.METHOD,
        "LoRA trains small matrices beside the frozen model. QLoRA also keeps the model in 4 bits: "
        "it fits into a third of the memory and is slower; without an NVIDIA GPU, on a CPU, much slower.",
        hint="QLoRA: a third of the memory, slow on a CPU",
    ),
    FormField(
        "provider",
        "Where",
        _S.GPU,
        LOCAL,
        why="This computer is free and as fast as it is. RunPod rents GPUs in your organization's own account.",
        choices=((LOCAL, "This computer"), (RUNPOD, "RunPod")),
    ),
    FormField("gpu_type", "Training GPU", _S.GPU),
    FormField(
        "gpu_count",
        "GPU count",
        _S.GPU,
        "1",
        why="One GPU for tries, models under 3B and few examples; several for 7B and more, for 10,000 examples and more, "
        "or when time matters. Four are typically 2.5 to 3.5 times as fast as one, not four times.",
        choices=tuple((count, count) for count in COUNTS),
        off_because="This computer trains on one device.",
        is_rented=True,
    ),
    _setting(
        "epochs",
        _S.HYPERPARAMETERS,
        "How often each row is seen. Three is enough for most sets of a few thousand rows; more of it teaches by heart.",
    ),
    _setting(
        "learning_rate",
        _S.HYPERPARAMETERS,
        "How far each step goes. Halve it when the loss jumps or rises; double it when the loss hardly falls.",
    ),
    _setting(
        "context_length",
        _S.HYPERPARAMETERS,
        "The longest row that is accepted, in tokens; longer rows are refused, never cut. It costs memory, not time.",
        unit="tokens",
    ),
    _setting(
        "rank",
        _S.HYPERPARAMETERS,
        "The size of the adapter. 8 to 16 teaches a form or a label; 32 and more when facts or a style must be learned.",
    ),
    _setting(
        "alpha",
        _S.HYPERPARAMETERS,
        "How strongly the adapter speaks: alpha divided by rank multiplies it. Twice the rank is a good rule.",
    ),
    _setting(
        "dropout",
        _S.HYPERPARAMETERS,
        "Above 0 it holds back learning by heart on small sets. At 0 rows can share their common beginning, which is faster.",
    ),
    _setting(
        "micro_batch_size",
        _S.HYPERPARAMETERS,
        "Rows in memory at once, on each GPU. Halve it when memory is short and double the accumulation.",
        hint="1 – 64, per GPU",
    ),
    _setting(
        "accumulation",
        _S.HYPERPARAMETERS,
        "Micro batches gathered before each step. Rows of a step = micro batch × accumulation × GPUs.",
    ),
    _setting(
        "checkpoint_every_epochs",
        _S.HYPERPARAMETERS,
        "Every 1 to 2 epochs gives finer progress and more points to go on from, good under 10 epochs, but slower. "
        "Every 5 to 10 is faster, for 50 epochs and more, but coarser. The final step is always saved.",
        unit="epochs",
    ),
    _setting(
        "checkpoint_unit",
        _S.ADVANCED,
        "Epochs suit most runs; steps suit runs of few, long epochs.",
    ),
    _setting(
        "checkpoint_every_steps",
        _S.ADVANCED,
        "Counts only where checkpoints go by steps. The final step is always saved.",
        unit="steps",
    ),
    _setting(
        "schedule",
        _S.ADVANCED,
        "How the learning rate falls after the warm-up. Cosine is right unless you compare with a run that used another.",
    ),
    _setting(
        "warmup_ratio",
        _S.ADVANCED,
        "The share of the steps in which the learning rate climbs to its value.",
    ),
    _setting(
        "weight_decay",
        _S.ADVANCED,
        "Pulls the adapter's weights towards zero. LoRA seldom needs it.",
    ),
    _setting(
        "max_grad_norm",
        _S.ADVANCED,
        "A step that would be longer is shortened to this. It tames single odd rows.",
    ),
    _setting(
        "seed",
        _S.ADVANCED,
        "The same seed, data and settings give the same run on the same machine.",
        hint="0 – 2,147,483,647",
    ),
    _setting(
        "packing",
        _S.ADVANCED,
        "Puts short rows side by side so that no work is spent on padding. Each row still sees only itself.",
    ),
    _setting(
        "evaluate_at_checkpoints",
        _S.ADVANCED,
        "Answers up to 32 validation rows at each checkpoint and scores them. It takes a little time each.",
    ),
    _setting(
        "early_stop",
        _S.ADVANCED,
        "Ends the run when the validation loss has stopped falling.",
    ),
    _setting(
        "early_stop_patience",
        _S.ADVANCED,
        "So many measurements in a row without a better one end the run. Counts only with early stop.",
    ),
    _setting(
        "adapter_from",
        _S.ADVANCED,
        "The last checkpoint has learned most; the one of the best validation loss has not yet learned by heart.",
    ),
    _setting(
        "maximum_runtime_hours",
        _S.LIMITS,
        "All attempts together. At the limit a checkpoint is saved and the run waits for you: nothing is lost.",
        unit="h",
    ),
    _limit(
        "price_limit",
        "For the whole machine. A machine that turns out dearer is given back at once.",
        "This computer costs nothing.",
    ),
    _limit("container_disk", "Of the machine itself, beside the network volume.", "This computer's own disk is used."),
    _limit(
        "wait_hours",
        "0: a launch that meets no free GPU ends as failed and costs nothing. More: it is asked for again until then.",
        "This computer is always in stock.",
    ),
    _further("second_gpu", "Second choice", "Asked for where the training GPU cannot be had, while the run waits: "),
    _further("third_gpu", "Third choice", "Asked for after the second one: "),
    _further("fourth_gpu", "Fourth choice", "Asked for after the third one: "),
    FormField(
        place_form.NOT_BEFORE,
        "Not before",
        _S.LIMITS,
        hint="Within 7 days; empty: at once",
        why="A launched run waits as Queued until then, holds no slot and costs nothing. It starts a little later where "
        "no slot is free.",
        unit="UTC",
    ),
)

BY_NAME: Mapping[str, FormField] = {field.name: field for field in FIELDS}
SETTINGS = tuple(field.name for field in fields(RunSettings))
"""The fields that a saved run keeps as its settings."""
TRIAL = tuple(field.name for field in fields(TrialSettings))
"""The fields that bound a trial; they count only where the purpose is one."""


def blank_form() -> dict[str, str]:
    return {NAME: "", **{field.name: field.default for field in FIELDS}}


def changed_fields(typed: Mapping[str, str], names: Sequence[str] = SETTINGS) -> list[str]:
    """Those that differ from their default, however it is written: 2048 is 2,048."""
    return [name for name in names if _plain(typed.get(name, "")) != _plain(BY_NAME[name].default)]


def complaints(typed: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Field → sentence, for every setting that cannot be used as typed."""
    wrong: dict[str, str] = {}
    for read in (read_settings, read_trial, lambda typed: read_placement(typed, now)):
        try:
            read(typed)
        except Invalid as error:
            wrong |= error.fields
    return wrong


def read_settings(typed: Mapping[str, str]) -> RunSettings:
    """The settings as typed, or `Invalid` with every field's sentence."""
    values, wrong = _read_all(typed, SETTINGS)
    try:
        settings = RunSettings.of(values)
    except Invalid as error:
        wrong |= error.fields
    if wrong:
        raise Invalid(wrong)
    return settings


def read_trial(typed: Mapping[str, str]) -> TrialSettings | None:
    """The bounds of a trial as typed, None where a full run is wanted, or `Invalid`."""
    purpose = typed.get(PURPOSE, BY_NAME[PURPOSE].default)
    if purpose == RunPurpose.FULL:
        return None
    if purpose != RunPurpose.TRIAL:
        raise Invalid({PURPOSE: "Choose a full training run or a small training trial."})
    values, wrong = _read_all(typed, TRIAL)
    try:
        bounds = TrialSettings.of(values)
    except Invalid as error:
        wrong |= error.fields
    if wrong:
        raise Invalid(wrong)
    return bounds


def _read_all(typed: Mapping[str, str], names: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """What can be read, and a sentence for what is no number at all."""
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name in names:
        text = typed.get(name, BY_NAME[name].default)
        try:
            values[name] = _read(name, text)
        except ValueError:
            whole = "a whole number" if RANGES[name].is_whole else "a number"
            wrong[name] = f"{RANGES[name].label} must be {whole}, such as {BY_NAME[name].default}."
    return values, wrong


def type_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """A saved run's settings as one would type them."""
    return {
        name: write_choice(value) if name in CHOICES else show_number(value)
        for name, value in settings.items()
        if name in BY_NAME
    }


def _read(name: str, text: str) -> Any:
    if name in CHOICES:
        return {write_choice(choice): choice for choice in CHOICES[name][1]}.get(text, text)
    plain = _plain(text)
    number = float(plain)
    if RANGES[name].is_whole:
        return int(number) if number.is_integer() else number
    return number


def _plain(text: str) -> str:
    return text.strip().replace(",", "").replace(" ", "").replace("\u2212", "-").lower()
