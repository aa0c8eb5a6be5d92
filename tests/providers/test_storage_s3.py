"""A network volume that misbehaves: what was put is there, or the caller is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensorant_app.domain.errors import AuthFailed, Denied, Transient
from tensorant_app.providers import storage_s3
from tensorant_app.providers.storage_s3 import S3Store, connect_volume
from tensorant_app.settings import get_settings
from tests.providers.volumes import client_of, volume_of
from tests.runpod_emulator import Emulator, Fault
from trainer.contract import BadManifest, seal_folder


@pytest.fixture
def emulator(tmp_path: Path) -> Emulator:
    return Emulator(tmp_path / "runpod")


@pytest.fixture
def store(emulator: Emulator, tmp_path: Path) -> S3Store:
    return volume_of(emulator, tmp_path / "cache")


def operations(emulator: Emulator) -> list[str]:
    return [call.operation for call in emulator.world.calls]


@pytest.mark.parametrize("fault", [Fault.S3_SHORT_WRITE, Fault.S3_VANISHED])
@pytest.mark.parametrize("times", [1, 2])
def test_a_put_that_was_not_kept_is_repeated(emulator: Emulator, store: S3Store, fault: Fault, times: int) -> None:
    emulator.faults.arm(fault, times=times)

    store.put("runs/1/in/1/job.json", b"a whole file")

    assert (emulator.volume.folder / "runs/1/in/1/job.json").read_bytes() == b"a whole file"


def test_a_volume_that_never_keeps_a_file_is_told(emulator: Emulator, store: S3Store) -> None:
    emulator.faults.arm(Fault.S3_SHORT_WRITE, times=-1)

    with pytest.raises(Transient, match=r"did not keep runs/1/in/1/job.json as it was written, 4 times"):
        store.put("runs/1/in/1/job.json", b"a whole file")


def test_another_content_of_the_same_size_is_no_success(
    emulator: Emulator, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap(self: S3Store, key: str, source: bytes, size: int) -> None:
        (emulator.volume.folder / key).write_bytes(b"b" * size)

    monkeypatch.setattr(S3Store, "_send", swap)

    with pytest.raises(Transient, match="did not keep"):
        store.put("file", b"aaaa")


def test_a_short_answer_is_asked_for_again(emulator: Emulator, store: S3Store) -> None:
    store.put("file", b"x" * 5000)
    emulator.faults.arm(Fault.S3_SHORT_READ)

    with store.open("file") as file:
        assert file.read() == b"x" * 5000

    emulator.faults.arm(Fault.S3_SHORT_READ, times=-1)
    with pytest.raises(Transient, match="broke off in file"), store.open("file", 0, 100) as file:
        file.read()


def test_a_denial_that_passes_is_none_and_one_that_stays_is_the_keys(emulator: Emulator, store: S3Store) -> None:
    store.put("file", b"x")
    emulator.faults.arm(Fault.S3_DENIED, times=2)
    assert store.size("file") == 1

    emulator.faults.arm(Fault.S3_DENIED, times=-1)
    with pytest.raises(AuthFailed, match="does not accept the S3 key"):
        store.put("file", b"y")


def test_a_full_volume_says_what_to_do(emulator: Emulator, store: S3Store) -> None:
    emulator.faults.arm(Fault.S3_FULL, times=-1)

    with pytest.raises(Denied, match=r"volume1 is full\. Enlarge it"):
        store.put("file", b"x")


def test_a_gateway_that_fails_for_long_is_told(emulator: Emulator, store: S3Store) -> None:
    emulator.faults.arm(Fault.S3_BAD_GATEWAY, times=-1)

    with pytest.raises(Transient, match="status 502"):
        store.put("file", b"x")


def test_a_wrong_key_a_wrong_volume_and_a_wrong_data_center_each_say_so(
    emulator: Emulator, store: S3Store, tmp_path: Path
) -> None:
    elsewhere = S3Store("vol-none", client_of(emulator), tmp_path, wait=lambda seconds: None)
    with pytest.raises(Denied, match="no network volume vol-none"):
        elsewhere.put("file", b"x")

    emulator.volume.dc = "US-KS-2"
    with pytest.raises(Denied, match="another data center"):
        store.put("file", b"x")

    emulator.account.s3_keys.clear()
    with pytest.raises(AuthFailed, match="InvalidAccessKeyId"):
        store.put("file", b"x")


def test_a_large_file_goes_in_parts(
    emulator: Emulator, store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_s3, "_MULTIPART_FROM", 6_000_000)
    monkeypatch.setattr(storage_s3, "_PART", 5_000_000)
    source = tmp_path / "big"
    source.write_bytes(bytes(range(256)) * 30_000)

    store.put("big", source)

    assert operations(emulator).count("s3.upload-part") == 2
    assert store.fetch("big").read_bytes() == source.read_bytes()


def test_what_was_fetched_is_not_fetched_again_until_it_changes(emulator: Emulator, store: S3Store) -> None:
    store.put("file", b"one")
    store.fetch("file")
    before = operations(emulator).count("s3.get")

    store.fetch("file")
    assert operations(emulator).count("s3.get") == before

    (emulator.volume.folder / "file").write_bytes(b"two")
    assert store.fetch("file").read_bytes() == b"two"


def sealed(emulator: Emulator) -> Path:
    folder = emulator.volume.folder / "adapter"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"w" * 1000)
    seal_folder(folder)
    return folder


def test_a_folder_is_read_by_its_manifest_and_never_listed(emulator: Emulator, store: S3Store) -> None:
    sealed(emulator)

    store.fetch("adapter")
    store.fetch("adapter")

    assert "s3.list" not in operations(emulator)
    assert operations(emulator).count("s3.get") == 3  # the manifest twice, the weights once


def test_a_file_that_is_not_what_its_manifest_says_is_never_given_out(
    emulator: Emulator, store: S3Store, tmp_path: Path
) -> None:
    folder = sealed(emulator)
    (folder / "weights.bin").write_bytes(b"v" * 1000)

    with pytest.raises(BadManifest, match="not what its manifest says"):
        store.fetch("adapter")

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["../../escape", "/etc/passwd", "a b", "ü"])
def test_a_manifest_cannot_lead_elsewhere(emulator: Emulator, store: S3Store, name: str) -> None:
    folder = sealed(emulator)
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("weights.bin", name))

    with pytest.raises(BadManifest, match="not allowed"):
        store.fetch("adapter")


def test_a_list_that_names_itself_as_the_next_page_ends(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    page = {"Contents": [{"Key": "a/1"}, {"Key": "a/empty/"}], "IsTruncated": True, "NextContinuationToken": "same"}

    class Stuck:
        def list_objects_v2(self, **asked: Any) -> dict[str, Any]:
            return page

    monkeypatch.setattr(store, "_client", Stuck())

    with pytest.raises(Transient, match="does not go on"):
        list(store.names("a"))


def test_a_server_that_ignores_the_range_is_cut_to_it(store: S3Store) -> None:
    class Whole:
        def get_object(self, **asked: Any) -> dict[str, Any]:
            return {"ContentLength": 6, "Body": self}

        def iter_chunks(self, size: int) -> list[bytes]:
            return [b"abc", b"def"]

    store._client = Whole()

    with store.open("file", 2, 3) as file:
        assert file.read() == b"cde"
    with store.open("file", 2) as file:
        assert file.read() == b"cdef"


def test_over_a_real_connection_with_the_settings_address(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Emulator(tmp_path / "runpod") as emulator:
        monkeypatch.setenv("TENSORANT_RUNPOD_S3_URL", emulator.s3_url)
        monkeypatch.setenv("AWS_PROFILE", "somebody-elses")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        get_settings.cache_clear()
        store = connect_volume(*emulator.s3_keys, emulator.volume.dc, emulator.volume.id)
        source = tmp_path / "source"
        source.write_bytes(b"z" * 2_000_000)

        store.put("a/file", source)

        assert (emulator.volume.folder / "a/file").read_bytes() == source.read_bytes()
        assert store.fetch("a/file") == data_dir / "cache" / emulator.volume.id / "a/file"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (("user_a", "rps_b", "EU-RO-1", "../other"), Denied),
        (("user_a", "rps_b", "evil.example.org/", "v"), Denied),
        (("user_ä", "rps_b", "EU-RO-1", "v"), AuthFailed),
    ],
)
def test_what_could_lead_elsewhere_is_refused(
    data_dir: Path, fields: tuple[str, str, str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        connect_volume(*fields)


def test_nothing_heavy_is_loaded_before_the_first_file() -> None:
    code = "import sys, tensorant_app.providers.registry; sys.exit(bool({'boto3', 'botocore'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
