"""`python -m tests.runpod_emulator`: the emulator until it is interrupted. Volumes stay in the folder."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from tests.runpod_emulator.clock import RealClock
from tests.runpod_emulator.emulator import Emulator
from tests.runpod_emulator.faults import Fault
from tests.runpod_emulator.pods import Pace
from tests.runpod_emulator.processes import RealTrainer
from tests.runpod_emulator.simulated import Script
from tests.runpod_emulator.workers import Idle, Start


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    if args.list_faults:
        for fault in Fault:
            print(f"{fault.name:20} {fault.effect}")
        return 0
    pace = Pace(provision=1, pull=args.pull, settle=1, billing_lag=args.billing_lag)
    start = _start(args.pods, args.python, args.threads)
    with Emulator(args.folder, clock=RealClock(), start=start, pace=pace, ports=(args.port, args.s3_port)) as emulator:
        for name in args.fault:
            emulator.faults.arm(Fault[name.upper().replace("-", "_")])
        if args.seed is not None:
            for armed in emulator.faults.scatter(args.seed, args.faults):
                print(f"armed: {armed.fault.name}, after {armed.skip} fitting moments")
        access_key, secret = emulator.s3_keys
        print(f"API        {emulator.api_url}\nAPI key    {emulator.key}")
        print(f"S3         {emulator.s3_url}\nS3 keys    {access_key} / {secret}")
        print(f"volume     {emulator.volume.id} in {emulator.volume.dc}, {emulator.volume.folder}", flush=True)
        _wait(emulator)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.runpod_emulator", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/runpod-emulator"))
    parser.add_argument("--port", type=int, default=4020)
    parser.add_argument("--s3-port", type=int, default=4021)
    parser.add_argument("--pods", choices=("real", "script", "idle"), default="real", help="what runs in a Pod")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the trainer's interpreter")
    parser.add_argument("--threads", type=int, help="CPU threads of each Pod")
    parser.add_argument("--pull", type=float, default=3, help="seconds until an image is there")
    parser.add_argument("--billing-lag", type=float, default=30, help="seconds until the bill knows")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help="arm one; may be repeated")
    parser.add_argument("--seed", type=int, help="arm faults drawn by this number")
    parser.add_argument("--faults", type=int, default=3, help="how many the seed draws")
    parser.add_argument("--list-faults", action="store_true")
    return parser


def _start(pods: str, python: Path, threads: int | None) -> Start:
    if pods == "idle":
        return Idle
    return RealTrainer(python, threads).start if pods == "real" else Script().start


def _wait(emulator: Emulator) -> None:
    """Time passes for the Pods also while nobody asks."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(1):
        emulator.world.tick()


if __name__ == "__main__":
    sys.exit(main())
