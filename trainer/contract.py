"""What the console and the trainer say to each other in files: names, folders and dataclasses, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from trainer.contract_carried import FILES_VARIABLE as FILES_VARIABLE
from trainer.contract_carried import LONGEST_TOLD as LONGEST_TOLD
from trainer.contract_carried import MOST_PACKED as MOST_PACKED
from trainer.contract_carried import Told as Told
from trainer.contract_carried import pack_files as pack_files
from trainer.contract_carried import read_told as read_told
from trainer.contract_carried import tell_line as tell_line
from trainer.contract_carried import unpack_files as unpack_files
from trainer.contract_files import dump as dump
from trainer.contract_files import load as load
from trainer.contract_files import load_lines as load_lines
from trainer.contract_files import sync_folder as sync_folder
from trainer.contract_files import write_file as write_file
from trainer.contract_manifest import MANIFEST as MANIFEST
from trainer.contract_manifest import BadManifest as BadManifest
from trainer.contract_manifest import FileEntry as FileEntry
from trainer.contract_manifest import Manifest as Manifest
from trainer.contract_manifest import hash_file as hash_file
from trainer.contract_manifest import seal_folder as seal_folder
from trainer.contract_manifest import verify_folder as verify_folder
from trainer.contract_mask import LongRow as LongRow
from trainer.contract_mask import MaskSummary as MaskSummary
from trainer.contract_mask import RowError as RowError
from trainer.contract_trial import MOST_MINUTES as MOST_MINUTES
from trainer.contract_trial import MOST_ROWS as MOST_ROWS
from trainer.contract_trial import MOST_STEPS as MOST_STEPS
from trainer.contract_trial import MOST_VALIDATION_ROWS as MOST_VALIDATION_ROWS
from trainer.contract_trial import Prediction as Prediction
from trainer.contract_trial import TrialLimits as TrialLimits
from trainer.contract_trial import TrialReport as TrialReport

CONTRACT_VERSION = 1
"""Stands in every job file and heartbeat; the console reads this one and the one before."""

JOB = "job.json"
CONSOLE = "console.json"
LOCK = "machine.lock"
BOOT = "boot.json"
STATUS = "status.json"
EVENTS = "events.jsonl"
METRICS = "metrics.jsonl"
RESULT = "result.json"
LOG = "log.txt"
ANSWERS = "answers.jsonl"
SAMPLES = "samples.jsonl"
TRIAL = "trial.json"
MASK = "mask.parquet"
MASK_SUMMARY = "mask.json"
PROGRESS = "progress.json"
CHECKPOINTS = "checkpoints"
RANKS = "ranks"
"""Folders of the other processes of an attempt on several GPUs, by number from 1."""

SPLIT_COLUMNS = ("row", "example")
"""Columns of a split's Parquet file: the row's number in the imported file (int64, from 1) and the example as JSON text."""


class Split(StrEnum):
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Phase(StrEnum):
    """How far the process on the machine is, in the order it happens."""

    PREPARING = "preparing"
    TRAINING = "training"
    PACKAGING = "packaging"
    EVALUATING = "evaluating"
    ENDED = "ended"


class Outcome(StrEnum):
    """How the process ended; written once, in `result.json`."""

    DONE = "done"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"
    OVERRUN = "overrun"


class Ask(StrEnum):
    """What the console wants of the process, in `console.json`."""

    NONE = "none"
    PAUSE = "pause"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class AttemptKeys:
    """Where one attempt reads and writes, as keys below the volume's root."""

    inputs: str
    outputs: str
    adapter: str

    @classmethod
    def of(cls, use: str, subject_id: str, attempt: int) -> AttemptKeys:
        """`use` is the plural noun: `runs` or `evaluations`."""
        root = f"{use}/{subject_id}"
        return cls(f"{root}/in/{attempt}", f"{root}/out/{attempt}", f"{root}/adapter/{attempt}")


@dataclass(frozen=True, slots=True)
class Base:
    """The base model: what it is called in public, and the folder that holds it."""

    repo_id: str
    revision: str
    """40 hexadecimal digits."""
    folder: str
    """A folder with safetensors weights, tokenizer and chat template: an absolute path, or a key below the volume's root."""

    def found_on(self, volume: Path) -> Base:
        """With the absolute path on this machine."""
        return replace(self, folder=str(volume / self.folder))


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The settings of a run; ranges and defaults are those of the draft."""

    method: str = "lora"
    epochs: int = 3
    learning_rate: float = 2e-4
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    micro_batch_size: int = 4
    """Rows of one forward pass."""
    accumulation: int = 4
    """Forward passes of one optimizer step."""
    context_length: int = 2048
    """Tokens; a longer row is an error, never cut."""
    schedule: str = "cosine"
    """cosine, linear or constant."""
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    seed: int = 42
    packing: bool = True
    checkpoint_unit: str = "epochs"
    """epochs or steps: which of the next two counts."""
    checkpoint_every_epochs: int = 1
    checkpoint_every_steps: int = 100
    evaluate_at_checkpoints: bool = True
    """Validation rows and pinned prompts are answered as well; the validation loss is measured in any case."""
    early_stop: bool = False
    early_stop_patience: int = 2
    """Evaluations in a row that bring nothing better."""
    adapter_from: str = "last"
    """last or best: the adapter of the lowest validation loss."""
    merge_system: bool = False
    """Put the system text before the first user text, for a template without a system role."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much work a run is, counted before it is paid for."""

    micro_batches_per_epoch: int
    steps_per_epoch: int
    total_steps: int
    warmup_steps: int
    last_micro_batch_rows: int = 0

    @classmethod
    def of(cls, rows: int, options: TrainOptions, world: int = 1) -> Plan:
        """`rows` are training rows, `world` is how many GPUs share a step; a last partial window is a step of its own."""
        micro = -(-rows // options.micro_batch_size)
        steps = -(-rows // (options.micro_batch_size * options.accumulation * world))
        total = steps * options.epochs
        last = rows - (micro - 1) * options.micro_batch_size if rows else 0
        return cls(micro, steps, total, round(total * options.warmup_ratio), last)


@dataclass(frozen=True, slots=True)
class TrainJob:
    """`job.json` of one attempt of a run."""

    subject_id: str
    attempt: int
    machine: str
    """The machine's unique name."""
    base: Base
    train: str
    """Key of the training split's Parquet file."""
    validation: str
    options: TrainOptions
    resume_from: tuple[str, ...] = ()
    """Output keys of earlier attempts, newest first; their verified checkpoints may be read."""
    sample_prompts: tuple[str, ...] = ()
    """At most 8, answered at each evaluation."""
    trial: TrialLimits | None = None
    """The bounds of a small training trial, which is not a run: `options` are those of the full run that it measures."""
    threads: int | None = None
    """CPU threads; None takes every usable core."""
    contract_version: int = CONTRACT_VERSION


@dataclass(frozen=True, slots=True)
class EvaluateJob:
    """`job.json` of one attempt of an evaluation: the base alone, or with an adapter."""

    subject_id: str
    attempt: int
    machine: str
    base: Base
    test: str
    """Key of the test split's Parquet file."""
    adapter: str | None = None
    """Key of the adapter folder; None scores the base."""
    labels: tuple[str, ...] = ()
    """The small closed set that every answer belongs to; empty where there is none."""
    max_new_tokens: int = 64
    batch_size: int = 16
    context_length: int = 2048
    merge_system: bool = False
    """As in the training of the adapter."""
    threads: int | None = None
    contract_version: int = CONTRACT_VERSION


@dataclass(frozen=True, slots=True)
class MaskJob:
    """`job.json` of `trainer mask`: the template's view of every row of a version."""

    base: Base
    files: Mapping[str, str]
    """Split name → absolute path of its Parquet file."""
    output: str
    """Absolute folder that receives `mask.parquet`, `mask.json` and `progress.json`."""
    context_length: int | None = None
    merge_system: bool = False
    images: str | None = None
    """Absolute folder of the images that the rows of a vision model name."""
    contract_version: int = CONTRACT_VERSION


@dataclass(frozen=True, slots=True)
class Words:
    """`console.json`: the console's last word to the process; a higher `seq` replaces a lower one."""

    seq: int
    ask: Ask
    deadline: str | None
    """ISO time in UTC at which the process must have written a checkpoint and ended."""


@dataclass(frozen=True, slots=True)
class Boot:
    """`boot.json`: which process holds this attempt's lock, and how often it began."""

    machine: str
    attempt: int
    boot: int
    """1 for the first start on this machine."""
    pid: int
    pid_started: str
    """The process's start time as the kernel tells it, so that a reused pid is not mistaken for it."""
    host_boot: str
    """The host's boot id."""
    at: str


@dataclass(frozen=True, slots=True)
class Status:
    """`status.json`: the heartbeat, replaced whole at least every 5 seconds and at every change of phase."""

    machine: str
    attempt: int
    boot: int
    phase: Phase
    at: str
    step: int = 0
    total_steps: int = 0
    epoch: float = 0.0
    """Passes over the training rows so far, such as 1.4."""
    loss: float | None = None
    validation_loss: float | None = None
    tokens_per_second: float | None = None
    """Real (unpacked, unpadded) training tokens per second of wall time."""
    elapsed: float = 0.0
    """Seconds since this process began."""
    done: int = 0
    """Rows prepared or answered in a phase without steps."""
    total: int = 0
    provider_id: str = ""
    """The provider's own name for this machine, where its environment tells it."""
    contract_version: int = CONTRACT_VERSION


@dataclass(frozen=True, slots=True)
class Failure:
    """Why it failed, for a program and for a person."""

    code: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Result:
    """`result.json`: written once, after everything it names."""

    machine: str
    attempt: int
    boot: int
    outcome: Outcome
    at: str
    seconds: float
    peak_rss_mb: int
    failure: Failure | None = None
    step: int = 0
    total_steps: int = 0
    adapter: str | None = None
    """Key of the adapter's folder; its `manifest.json` is written before this file."""
    unfinished: int = 0
    """Step of the checkpoint whose adapter was left for a person, on a disk of its own, when the time was over."""
    answers: str | None = None
    """Key of an evaluation's `answers.jsonl`."""
    answers_sha256: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    """Totals: exact_match, token_f1, rouge_l, did_not_stop (a count), and likelihood where there are labels."""
    contract_version: int = CONTRACT_VERSION


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of `answers.jsonl`: one test row, answered."""

    row: int
    expected: str
    answer: str
    exact: bool
    f1: float
    stopped: bool
    """False where the answer reached its token limit."""
    likely: str | None = None
    """The label that the model finds most likely; None without labels."""
    likely_correct: bool | None = None
    rouge_l: float | None = None
    """None in answers of an older trainer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of `samples.jsonl`: a pinned prompt, answered at a checkpoint."""

    at: str
    step: int
    prompt: str
    answer: str
    stopped: bool
