"""This computer as a provider, with real processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from tensorant_app.domain.errors import Denied, Unsupported
from tensorant_app.domain.machines import Presence
from tensorant_app.domain.money import FREE
from tensorant_app.providers import local
from tensorant_app.providers.base import MachineRequest
from tensorant_app.providers.local import LocalProvider
from trainer.contract import BOOT, LOG, AttemptKeys, Boot, dump, load

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


@pytest.fixture
def provider(volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalProvider]:
    monkeypatch.setattr(local, "_TERM_SECONDS", 1.0)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("sleeper.py")} "$@"\n')
    python.chmod(0o755)
    yield LocalProvider(python, volume)
    for boot in volume.rglob(BOOT):
        found = load(Boot, boot.read_text())
        if local.is_alive(found):
            os.killpg(found.pid, signal.SIGKILL)
    for process in local._started:
        process.wait(10)


def request(subject: str, attempt: int = 1) -> MachineRequest:
    keys = AttemptKeys.of("runs", subject, attempt)
    command = ["train", "--volume", ".", "--job", f"{keys.inputs}/job.json"]
    return MachineRequest(f"tune-{subject}", local.THIS_GPU_TYPE, command, keys.outputs, {})


def presence(provider: LocalProvider, asked: MachineRequest) -> Presence:
    return provider.look(asked.name, asked.outputs, NOON).presence


def boot_of(volume: Path, asked: MachineRequest) -> Boot:
    found = local.read_boot(volume / asked.outputs)
    assert found is not None
    return found


def wait_until_gone(pid: int) -> None:
    give_up_at = monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert monotonic() < give_up_at, f"{pid} is still there"
        sleep(0.02)


def test_a_machine_is_there_as_soon_as_create_returns(provider: LocalProvider, volume: Path) -> None:
    asked = request("a")

    rented = provider.create(asked)

    assert presence(provider, asked) is Presence.PRESENT
    assert rented.provider_id == f"pid-{boot_of(volume, asked).pid}"


def test_asking_twice_leaves_one_process(provider: LocalProvider, volume: Path) -> None:
    asked = request("a")
    provider.create(asked)
    first = boot_of(volume, asked)

    provider.create(asked)

    assert boot_of(volume, asked) == first


def test_it_lives_in_a_session_of_its_own_and_any_console_finds_it(provider: LocalProvider, volume: Path) -> None:
    asked = request("a")
    provider.create(asked)
    pid = boot_of(volume, asked).pid

    another_console = LocalProvider(Path("/nowhere"), volume)

    assert os.getsid(pid) == pid != os.getsid(0)
    assert presence(another_console, asked) is Presence.PRESENT
    another_console.release(asked.name, asked.outputs)
    assert presence(provider, asked) is Presence.ABSENT


def test_a_killed_process_has_exited_and_its_lock_is_free(provider: LocalProvider, volume: Path) -> None:
    asked = request("a")
    provider.create(asked)

    os.kill(boot_of(volume, asked).pid, signal.SIGKILL)
    wait_until_gone(boot_of(volume, asked).pid)

    assert presence(provider, asked) is Presence.EXITED


@pytest.mark.parametrize("subject", ["gentle", "stubborn"])
def test_a_release_ends_the_whole_group(provider: LocalProvider, volume: Path, subject: str) -> None:
    asked = request(subject)
    provider.create(asked)
    child = volume / asked.outputs / "child"
    give_up_at = monotonic() + 10
    while not child.exists() or not child.read_text():
        assert monotonic() < give_up_at
        sleep(0.02)
    pids = [boot_of(volume, asked).pid, int(child.read_text())]

    provider.release(asked.name, asked.outputs)

    assert presence(provider, asked) is Presence.ABSENT
    for pid in pids:
        wait_until_gone(pid)


def test_a_release_of_what_is_gone_is_a_success(provider: LocalProvider) -> None:
    asked = request("a")

    provider.release(asked.name, asked.outputs)

    assert presence(provider, asked) is Presence.ABSENT


def test_a_release_never_touches_a_process_that_reuses_the_pid(provider: LocalProvider, volume: Path) -> None:
    asked = request("a")
    folder = volume / asked.outputs
    folder.mkdir(parents=True)
    host_boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    stranger = Boot(asked.name, 1, 1, os.getpid(), "1", host_boot, "now")
    (folder / BOOT).write_text(dump(stranger))

    provider.release(asked.name, asked.outputs)

    assert not local.is_alive(stranger)
    assert presence(provider, asked) is Presence.ABSENT


def test_a_boot_before_the_hosts_restart_is_not_alive(provider: LocalProvider, volume: Path) -> None:
    asked = request("a")
    provider.create(asked)
    boot = boot_of(volume, asked)
    before = Boot(boot.machine, 1, 1, boot.pid, boot.pid_started, "another-boot", boot.at)

    assert local.is_alive(boot)
    assert not local.is_alive(before)


def test_a_trainer_that_cannot_start_is_a_definite_refusal_with_its_last_words(provider: LocalProvider) -> None:
    with pytest.raises(Denied, match=r"code 1.*No module named 'torch'"):
        provider.create(request("broken"))


def test_an_interpreter_that_is_not_there_is_a_definite_refusal(volume: Path) -> None:
    with pytest.raises(Denied, match="could not be started"):
        LocalProvider(Path("/nowhere/python"), volume).create(request("a"))


def test_no_secret_of_the_console_reaches_the_trainer(
    provider: LocalProvider, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORANT_SECRET_KEYS", "very-secret")
    asked = request("a")

    provider.create(asked)

    environment = Path(f"/proc/{boot_of(volume, asked).pid}/environ").read_bytes()
    assert b"very-secret" not in environment
    assert (volume / asked.outputs / LOG).exists()


def test_every_machine_of_this_computer_is_listed_with_its_real_name(provider: LocalProvider, volume: Path) -> None:
    first, second = request("a"), request("b")
    provider.create(first)
    provider.create(second)
    os.kill(boot_of(volume, second).pid, signal.SIGKILL)
    wait_until_gone(boot_of(volume, second).pid)

    found = {machine.name: (machine.presence, machine.rate) for machine in provider.listing()}

    assert found == {first.name: (Presence.PRESENT, FREE), second.name: (Presence.EXITED, FREE)}


def test_one_machine_is_terminated_by_its_id_and_no_other(provider: LocalProvider, volume: Path) -> None:
    kept, ended = request("a"), request("b")
    provider.create(kept)
    provider_id = provider.create(ended).provider_id

    provider.terminate(provider_id)
    provider.terminate(provider_id)

    assert [machine.name for machine in provider.listing()] == [kept.name]


def test_a_log_is_read_on_from_its_cursor_and_a_line_that_is_not_whole_waits(
    provider: LocalProvider, volume: Path
) -> None:
    asked = request("a")
    provider_id = provider.create(asked).provider_id
    log = volume / asked.outputs / LOG
    log.write_text("one\ntwo\nthr")

    first = list(provider.logs(provider_id))
    with log.open("a") as file:
        file.write("ee\n")

    assert [line.text for line in first] == ["one", "two"]
    assert [line.text for line in provider.logs(provider_id, first[-1].cursor)] == ["three"]


def test_what_this_computer_cannot_do_it_says(provider: LocalProvider, volume: Path) -> None:
    broken = LocalProvider(Path("/nowhere/python"), volume)

    assert provider.check() == []
    assert "TENSORANT_TRAINER_PYTHON" in broken.check()[0]
    with pytest.raises(Unsupported, match="release it"):
        provider.stop("tune-a")
