"""A whole installation of real processes in a folder of its own, and the means to break it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import psutil
import redis

from tensorant_app.domain.splits import Counts
from tensorant_app.services.demo import Recipe
from tensorant_app.settings import Settings
from trainer.contract import BOOT

WORDS = ("apple", "stone", "river", "cloud", "bread", "horse")


def write_rows(path: Path, rows: int) -> None:
    """Chats that a random model can learn by heart: the answer is the first letter of the question."""
    chooser = random.Random(5)
    with path.open("w") as file:
        for number in range(rows):
            word = chooser.choice(WORDS)
            messages = [
                {"role": "system", "content": "Say the first letter."},
                {"role": "user", "content": f"{word} {number}"},
                {"role": "assistant", "content": word[0]},
            ]
            file.write(json.dumps({"messages": messages}) + "\n")


def tiny_recipe(folder: Path, *, epochs: int) -> Recipe:
    path = folder / "letters.jsonl"
    write_rows(path, 320)
    settings = {
        "epochs": epochs,
        "learning_rate": 5e-3,
        "rank": 8,
        "alpha": 16,
        "micro_batch_size": 8,
        "accumulation": 2,
        "context_length": 256,
    }
    return Recipe("Letters", path, Counts(train=200, validation=20, test=100), settings)


@dataclass
class Installation:
    """`tensorant up` as a process of its own."""

    settings: Settings
    process: subprocess.Popen[bytes] | None = None
    told: list[str] = field(default_factory=list)
    module: str = "tensorant_app.cli"
    """What knows the word `up`."""

    def up(self) -> None:
        default = Settings.model_fields["port"].default
        assert self.settings.port != default, "The installation of another test may listen there: ask for a free port."
        path = self.settings.log_dir / "up.log"
        log = path.open("ab")
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", self.module, "up"], env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        log.close()
        process = self.process

        def is_up() -> bool:
            assert process.poll() is None, f"It ended:\n{path.read_text()}"
            return self.child("jobs.worker") is not None

        wait_for(is_up, 60)

    def down(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None

    def kill_console(self) -> None:
        """The supervisor dies, and everything but the machines with it."""
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait(10)
        psutil.wait_procs(children, timeout=5)
        self.process = None

    def child(self, mark: str) -> psutil.Process | None:
        if self.process is None:
            return None
        try:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                if mark in " ".join(child.cmdline()):
                    return child
        except psutil.Error:
            return None
        return None

    def machines(self, use: str) -> list[int]:
        """Process ids of the machines that run now, `runs` or `evaluations`."""
        pids = []
        for path in self.settings.volume_dir.glob(f"{use}/*/out/*/{BOOT}"):
            try:
                pid = int(json.loads(path.read_text())["pid"])
                if "trainer" in " ".join(psutil.Process(pid).cmdline()):
                    pids.append(pid)
            except (OSError, ValueError, psutil.Error):
                continue
        return pids

    def kill_worker(self) -> None:
        self._kill(self.child("jobs.worker"))

    def kill_redis(self) -> None:
        self._kill(self.child("redis-server"))

    def kill_run(self) -> None:
        for pid in self.machines("runs"):
            os.killpg(pid, signal.SIGKILL)

    def flush_redis(self) -> None:
        try:
            with redis.Redis(unix_socket_path=str(self.settings.redis_socket), socket_timeout=2) as client:
                client.flushall()
        except redis.RedisError:
            pass  # It is being killed just now.

    def _kill(self, process: psutil.Process | None) -> None:
        if process is not None:
            process.kill()


class Trouble(threading.Thread):
    """Breaks things at random moments until it is told to stop; the same seed makes the same plan."""

    def __init__(self, acts: list[Callable[[], None]], *, seed: int, pause: tuple[float, float]) -> None:
        super().__init__(name="trouble", daemon=True)
        self._acts, self._random, self._pause = acts, random.Random(seed), pause
        self._stopping = threading.Event()
        self.done: list[str] = []

    def run(self) -> None:
        for act in self._acts:
            if self._stopping.wait(self._random.uniform(*self._pause)):
                return
            act()
            self.done.append(getattr(act, "__name__", str(act)))

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)


def wait_for(is_true: Callable[[], bool], seconds: float) -> None:
    give_up_at = monotonic() + seconds
    while not is_true():
        assert monotonic() < give_up_at, "It did not come true in time."
        sleep(0.05)
