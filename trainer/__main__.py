"""The trainer's command line: `python -m trainer train | trial | evaluate | mask | check | fetch-base`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.conduct import conduct, load_libraries, read_job, set_environment
from trainer.contract import Base, EvaluateJob, MaskJob, TrainJob, TrainOptions, TrialLimits, dump, load
from trainer.errors import exit_code_of
from trainer.ranks import spread


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    match args.command:
        case "train" | "trial":
            if args.processes > 1 and "WORLD_SIZE" not in os.environ:
                given = arguments if arguments is not None else sys.argv[1:]
                spread(args.processes, given)
            return conduct(TrainJob, "runs", args.volume, args.job, _train if args.command == "train" else _try)
        case "evaluate":
            return conduct(EvaluateJob, "evaluations", args.volume, args.job, _evaluate)
        case "mask":
            return _mask(args.job)
        case "mask-file":
            return _mask_file(args)
        case "trial-file":
            return _trial_file(args)
        case "verify-zip":
            return _verify_zip(args)
        case "check":
            return _check()
        case "fetch-base":
            return _fetch_base(args.dest_root)
        case _:
            return _verify_adapter(args)


_ATTEMPTS = (
    ("train", "one attempt of a run"),
    ("trial", "one attempt of a small training trial"),
    ("evaluate", "one attempt of an evaluation"),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in _ATTEMPTS:
        command = commands.add_parser(name, help=what)
        command.add_argument("--volume", type=Path, required=True, help="the folder that all keys are relative to")
        command.add_argument("--job", required=True, help="key of job.json")
        if name != "evaluate":
            command.add_argument("--processes", type=int, default=1, help="one for each GPU that trains")
    mask = commands.add_parser("mask", help="the chat template's view of every row")
    mask.add_argument("--job", type=Path, required=True, help="absolute path of the job file")
    _describe_files(commands)
    commands.add_parser("check", help="train one step of a tiny random model and tell what this machine can do")
    fetch = commands.add_parser("fetch-base", help="unpack the demo base model")
    fetch.add_argument("dest_root", type=Path)
    verify = commands.add_parser("verify-adapter", help="used by the trainer itself")
    for name in ("base", "adapter", "probe"):
        verify.add_argument(f"--{name}", type=Path, required=True)
    verify.add_argument("--quantised", action="store_true")
    return parser


def _describe_files(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What works on a file, without a volume."""
    view = commands.add_parser("mask-file", help="the template's view of a file of rows, as JSON on standard output")
    view.add_argument("file", type=Path)
    view.add_argument("--tokenizer", type=Path, required=True, help="folder with the tokenizer and its chat template")
    view.add_argument("--context", type=int, help="the longest sequence, in tokens")
    view.add_argument("--merge-system", action="store_true", help="put the system text before the first user text")
    trial = commands.add_parser(
        "trial-file", help="measure a few steps and extrapolate the run; JSON on standard output"
    )
    trial.add_argument("file", type=Path)
    trial.add_argument("--base", type=Path, required=True, help="folder of the base model")
    trial.add_argument("--validation", type=Path)
    trial.add_argument("--options", default="{}", help="the settings of the full run, as a JSON object")
    trial.add_argument("--limits", default="{}", help="the bounds, as a JSON object")
    package = commands.add_parser("verify-zip", help="whether an adapter.zip is a sound adapter of a base")
    package.add_argument("file", type=Path)
    package.add_argument("--base", type=Path, help="folder of the base model")
    package.add_argument("--max-rank", type=int, help="the highest rank that the server takes")
    package.add_argument("--unpack", type=Path, help="folder that receives the verified files")


# The imports below come late: torch takes seconds, and by then the lock is held and the heartbeat is going.


def _train():  # type: ignore[no-untyped-def]
    from trainer.train import train

    return train


def _try():  # type: ignore[no-untyped-def]
    from trainer.trial_run import try_training

    return try_training


def _evaluate():  # type: ignore[no-untyped-def]
    from trainer.evaluate import evaluate

    return evaluate


def _mask(path: Path) -> int:
    job = read_job(MaskJob, path)
    if job is None:
        return 2
    set_environment(1)
    from trainer.mask import make_mask

    make_mask(job)
    return 0


def _mask_file(args: argparse.Namespace) -> int:
    set_environment(1)
    from trainer.errors import TrainerError
    from trainer.mask_file import as_json, mask_file

    try:
        rows = list(mask_file(args.file, args.tokenizer, context=args.context, merged=args.merge_system))
    except (TrainerError, OSError, ValueError) as error:
        print(str(error), file=sys.stderr)
        return 1
    print(json.dumps(as_json(rows), ensure_ascii=False), flush=True)
    return 0


def _trial_file(args: argparse.Namespace) -> int:
    load_libraries(None)
    from trainer.errors import failure_of
    from trainer.trial_report import run_trial

    options, limits = load(TrainOptions, args.options), load(TrialLimits, args.limits)
    base = Base(args.base.name, "", str(args.base.resolve()))
    try:
        report = run_trial(base, args.file, args.validation, options, limits)
    except Exception as error:  # whatever ends it is told as a sentence
        print(failure_of(error).message, file=sys.stderr)
        return exit_code_of(failure_of(error).code)
    print(dump(report), flush=True)
    return 0 if report.completed else exit_code_of("trial_over_time")


def _verify_zip(args: argparse.Namespace) -> int:
    set_environment(1)
    from trainer.errors import TrainerError
    from trainer.uploaded import verify_zip

    try:
        facts = verify_zip(args.file, base=args.base, unpack=args.unpack, most_rank=args.max_rank)
    except (TrainerError, OSError) as error:
        print(str(error), file=sys.stderr)
        return exit_code_of(error.code) if isinstance(error, TrainerError) else 1
    print(json.dumps(facts), flush=True)
    return 0


def _check() -> int:
    load_libraries(None)
    from trainer.check import check

    report = check()
    print(json.dumps(report), flush=True)
    return 0 if report["ok"] else 1


def _fetch_base(dest_root: Path) -> int:
    load_libraries(None)
    from trainer.fetch_base import FetchError, fetch

    try:
        base = fetch(dest_root)
    except (FetchError, OSError) as error:
        print(str(error), file=sys.stderr)
        return 1
    print(json.dumps({"folder": base.folder, "repo_id": base.repo_id, "revision": base.revision}), flush=True)
    return 0


def _verify_adapter(args: argparse.Namespace) -> int:
    load_libraries(None)
    from trainer.errors import TrainerError
    from trainer.package import verify

    try:
        verify(Base("", "", str(args.base)), args.adapter, args.probe, quantised=args.quantised)
    except TrainerError as error:
        print(error.failure.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
