"""This computer as a provider: a machine is a process group that lives on without the console and is found again by its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from tensorant_app.domain.errors import Denied, Transient, Unsupported
from tensorant_app.domain.machines import THIS_COMPUTER, Presence, Sighting
from tensorant_app.domain.money import FREE
from tensorant_app.providers.base import BillLine, Listed, LogLine, MachineRequest, NetworkVolume, Offer, Rented, Stock
from trainer.contract import BOOT, LOCK, LOG, RESULT, Boot, load

THIS_GPU_TYPE = "this-computer"
_START_SECONDS = 20.0
_TERM_SECONDS = 10.0
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)


_started: list[subprocess.Popen[bytes]] = []
"""Machines that this very process started and that have not been reaped: an ended one must not stay as a zombie."""


class LocalProvider:
    """Machines are processes of this computer, free of charge."""

    rules = THIS_COMPUTER
    free = True
    pause = timedelta(0)

    def __init__(self, python: Path, volume: Path, installation: str = "") -> None:
        self._python = python
        self._volume = volume
        self._installation = installation

    def check(self) -> Sequence[str]:
        if os.access(self._python, os.X_OK):
            return []
        return [
            f"The trainer's interpreter {self._python} cannot be run. Set TENSORANT_TRAINER_PYTHON to one that has torch."
        ]

    def offers(self, count: int = 1) -> Sequence[Offer]:
        return [Offer(THIS_GPU_TYPE, "This computer", available_memory(), FREE, stock=Stock.HIGH, arch=_arch())]

    def volumes(self) -> Sequence[NetworkVolume]:
        return []

    def create(self, request: MachineRequest) -> Rented:
        """Start the trainer in its own session. Its lock makes a second start harmless."""
        outputs = self._volume / request.outputs
        try:
            outputs.mkdir(parents=True, exist_ok=True)
            process = self._start(request, outputs)
        except OSError as error:
            raise Denied(f"The trainer could not be started on this computer: {error}.") from error
        self._await_boot(outputs, process)
        return Rented(f"pid-{process.pid}", "running", FREE)

    def listing(self) -> Sequence[Listed]:
        """Every attempt that ever booted and was not released; whatever lies in the volume's folder is this installation's."""
        _reap()
        found = []
        for path in self._volume.glob(f"*/*/out/*/{BOOT}"):
            if (boot := read_boot(path.parent)) is not None:
                found.append(_listed(boot, path.parent, self._installation))
        return found

    def find(self, provider_id: str) -> Listed | None:
        return next((machine for machine in self.listing() if machine.provider_id == provider_id), None)

    def look(self, name: str, outputs: str, at: datetime) -> Sighting:
        _reap()
        folder = self._volume / outputs
        boot = read_boot(folder)
        if boot is None and not is_locked(folder):
            return Sighting(at, Presence.ABSENT)
        provider_ids = (f"pid-{boot.pid}",) if boot else (name,)
        if is_locked(folder):
            return Sighting(at, Presence.PRESENT, provider_ids, "running")
        return Sighting(at, Presence.EXITED, provider_ids, "exited")

    def stop(self, name: str) -> None:
        raise Unsupported("A process of this computer keeps nothing when it is stopped: release it.")

    def release(self, name: str, outputs: str, known: Sequence[str] = ()) -> bool:
        """End the whole process group and forget its boot, so that the next look proves it gone."""
        folder = self._volume / outputs
        boot = read_boot(folder)
        if boot is not None and is_alive(boot):
            _end_group(boot)
        if is_locked(folder):
            raise Transient(f"The process of {name} still holds its lock.")
        (folder / BOOT).unlink(missing_ok=True)
        return boot is not None

    def terminate(self, provider_id: str) -> bool:
        """End the group that booted under this id; none of that id is a success."""
        was_known = False
        for path in self._volume.glob(f"*/*/out/*/{BOOT}"):
            boot = read_boot(path.parent)
            if boot is not None and f"pid-{boot.pid}" == provider_id:
                was_known |= self.release(boot.machine, path.parent.relative_to(self._volume).as_posix())
        return was_known

    def logs(self, provider_id: str, after: str | None = None) -> Iterator[LogLine]:
        """What stands in the log now, from the byte `after` on; whoever wants more asks again."""
        for path in self._volume.glob(f"*/*/out/*/{BOOT}"):
            boot = read_boot(path.parent)
            if boot is not None and f"pid-{boot.pid}" == provider_id:
                yield from _log_lines(path.parent / LOG, int(after or 0))

    def bill(self, provider_id: str, since: datetime, until: datetime) -> Sequence[BillLine]:
        return []

    def _start(self, request: MachineRequest, outputs: Path) -> subprocess.Popen[bytes]:
        with (outputs / LOG).open("ab") as log:
            process = subprocess.Popen(
                [str(self._python), "-m", "trainer", *request.command],
                env=_environment(request.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=str(self._volume),
            )
        _started.append(process)
        return process

    def _await_boot(self, outputs: Path, process: subprocess.Popen[bytes]) -> None:
        """Until this very process holds the lock, or has ended: one that began later would be nobody's machine."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            boot = read_boot(outputs)
            if boot is not None and boot.pid == process.pid:
                return
            if (code := process.poll()) is not None:
                _require_held(outputs, code)
                return
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        raise Denied(f"The trainer did not start within {_START_SECONDS:.0f} seconds. {log_tail(outputs)}")


def _listed(boot: Boot, folder: Path, installation: str) -> Listed:
    presence, word = (Presence.PRESENT, "running") if is_locked(folder) else (Presence.EXITED, "exited")
    return Listed(
        boot.machine,
        f"pid-{boot.pid}",
        word,
        presence,
        rate=FREE,
        installation=installation,
        created_at=datetime.fromisoformat(boot.at),
        started_at=datetime.fromisoformat(boot.at),
    )


def _log_lines(log: Path, start: int) -> Iterator[LogLine]:
    with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n"):
                start += len(line)
                yield LogLine(None, "container", line.decode(errors="replace").rstrip("\r\n"), str(start))


def _arch() -> str:
    return "arm64" if os.uname().machine in {"aarch64", "arm64"} else "amd64"


def _require_held(outputs: Path, code: int) -> None:
    """A process that ended at once is no failure where another one was started before it."""
    if code != 0:
        raise Denied(f"The trainer ended at once with code {code}. {log_tail(outputs)}")
    if not is_locked(outputs) and not (outputs / RESULT).exists():
        raise Transient("The trainer found its lock taken for a moment.")


def _reap() -> None:
    for process in tuple(_started):
        if process.poll() is not None and process in _started:
            _started.remove(process)


def available_memory() -> int:
    """Bytes that a new process could use now."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def log_tail(outputs: Path) -> str:
    """The last line of the trainer's log, as a sentence."""
    try:
        lines = (outputs / LOG).read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"Its last words: {lines[-1][:300]}" if lines else "It wrote no log."


def read_boot(folder: Path) -> Boot | None:
    try:
        return load(Boot, (folder / BOOT).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise Transient(f"{folder / BOOT} cannot be read: {error}.") from error


def is_locked(folder: Path) -> bool:
    """Whether a process holds the attempt's lock now."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_alive(boot: Boot) -> bool:
    """Whether the very process that wrote `boot` runs; a reused pid, a zombie or an earlier boot of the host is not it."""
    try:
        host_boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{boot.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return host_boot == boot.host_boot and fields[0] != "Z" and fields[19] == boot.pid_started


def _end_group(boot: Boot) -> None:
    for number, patience in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _TERM_SECONDS)):
        try:
            os.killpg(boot.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not is_alive(boot):
                break
            time.sleep(0.05)
    # Whoever of the group outlived its leader goes too.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(boot.pid, signal.SIGKILL)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Only what a trainer needs: no key of the console's reaches it."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return kept | dict(extra)
