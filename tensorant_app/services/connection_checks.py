"""Looking whether an account's credentials work: what the provider is asked, and what is said of its answers."""

from __future__ import annotations

from collections.abc import Sequence

from tensorant_app.domain.connections import ConnectionKind, ConnectionState
from tensorant_app.domain.errors import AuthFailed, ProviderError, Transient
from tensorant_app.providers.base import FileStore, NetworkVolume, Provider
from tensorant_app.services.connecting import CheckResult, CheckTask, VolumeFacts

_PROBE = b"Tensorant was here to see whether it may write. This file can be deleted.\n"


def look(task: CheckTask) -> CheckResult:
    """Ask the provider, with no transaction open. `Transient` where it could not be reached: nothing is known then."""
    try:
        if task.kind is ConnectionKind.RUNPOD_COMPUTE:
            assert task.provider is not None
            return _look_at_compute(task.provider)
        assert task.volume is not None
        return _look_at_storage(task, task.volume)
    except Transient:
        raise
    except ProviderError as error:
        return CheckResult(ConnectionState.FAILED, error.message)


def _look_at_compute(provider: Provider) -> CheckResult:
    if wrong := provider.check():
        return CheckResult(ConnectionState.FAILED, " ".join(wrong))
    return CheckResult(
        ConnectionState.OK,
        "The key reads Pods, network volumes and bills. Whether it may also create Pods shows at the first launch.",
    )


def _look_at_storage(task: CheckTask, store: FileStore) -> CheckResult:
    """Write, read back and delete a small file; then the volume's size, by way of the compute key."""
    if wrong := _probe(task, store):
        return CheckResult(ConnectionState.FAILED, wrong)
    written = f"Volume {task.shown['volume_id']} in {task.shown['data_center']} can be written and read over S3."
    if task.provider is None:
        return CheckResult(ConnectionState.OK, f"{written} Its size is known once RunPod compute is connected.")
    try:
        return _compare(task, written, task.provider.volumes())
    except AuthFailed:
        # The compute key's own check says that; the volume itself works.
        return CheckResult(ConnectionState.OK, f"{written} Its size is not known: the compute key does not work.")


def _probe(task: CheckTask, store: FileStore) -> str:
    """What is wrong; nothing where all is well."""
    key = f"checks/{task.id.hex}"
    try:
        store.put(key, _PROBE)
        with store.open(key) as file:
            is_same = file.read() == _PROBE
        store.delete(key)
    except OSError as error:
        return f"The volume could not be written or read: {error}. Check its id, its data center and the S3 key."
    return "" if is_same else "The volume gave back another file than was written to it. Try again in a few minutes."


def _compare(task: CheckTask, written: str, volumes: Sequence[NetworkVolume]) -> CheckResult:
    found = next((one for one in volumes if one.id == task.shown["volume_id"]), None)
    if found is None:
        return CheckResult(
            ConnectionState.FAILED,
            f"{written} But the account of the compute key has no volume of this id: both keys must be of one account.",
        )
    if found.data_center != task.shown["data_center"]:
        return CheckResult(
            ConnectionState.FAILED,
            f"The volume lies in {found.data_center}, not in {task.shown['data_center']}. Choose {found.data_center}.",
        )
    return CheckResult(
        ConnectionState.OK, written, VolumeFacts(found.name, found.size_gb, found.data_center, found.type)
    )
