"""The S3 side, through boto3: over a socket and in process."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.runpod_emulator import Emulator, attach_s3
from tests.runpod_emulator.conftest import s3_client

KEY = "runs/1/out/1/status.json"


@pytest.fixture(params=["socket", "in process"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Emulator, Any]]:
    if request.param == "socket":
        with Emulator(tmp_path) as emulator:
            client = s3_client(emulator)
            yield emulator, client
            client.close()
    else:
        emulator = Emulator(tmp_path)
        client = s3_client(emulator)
        attach_s3(client, emulator.world)
        yield emulator, client


def test_a_file_is_put_read_measured_and_deleted(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    bucket = emulator.volume.id

    put = s3.put_object(Bucket=bucket, Key=KEY, Body=b"hello")
    head = s3.head_object(Bucket=bucket, Key=KEY)
    whole = s3.get_object(Bucket=bucket, Key=KEY)["Body"].read()
    part = s3.get_object(Bucket=bucket, Key=KEY, Range="bytes=1-3")
    on_the_volume = (emulator.volume.folder / KEY).read_bytes()
    s3.delete_object(Bucket=bucket, Key=KEY)

    assert put["ETag"] == head["ETag"] == f'"{hashlib.md5(b"hello").hexdigest()}"'
    assert (head["ContentLength"], whole, on_the_volume) == (5, b"hello", b"hello")
    assert (part["Body"].read(), part["ContentRange"]) == (b"ell", "bytes 1-3/5")
    with pytest.raises(ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key=KEY)


def test_what_the_pod_writes_is_read_over_s3(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    path = emulator.volume.folder / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(b"from the machine")

    assert s3.get_object(Bucket=emulator.volume.id, Key=KEY)["Body"].read() == b"from the machine"


def test_lists_come_in_order_by_prefix_and_page_by_page(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    for name in ("b/2", "a/1", "b/1", "b/10", "c"):
        s3.put_object(Bucket=emulator.volume.id, Key=name, Body=b"")
    (emulator.volume.folder / "b" / "empty").mkdir()

    pages = list(
        s3.get_paginator("list_objects_v2").paginate(
            Bucket=emulator.volume.id, Prefix="b/", PaginationConfig={"PageSize": 2}
        )
    )
    top = s3.list_objects_v2(Bucket=emulator.volume.id, Delimiter="/")

    assert [[entry["Key"] for entry in page["Contents"]] for page in pages] == [["b/1", "b/10"], ["b/2", "b/empty/"]]
    assert [entry["Prefix"] for entry in top["CommonPrefixes"]] == ["a/", "b/"]
    assert [entry["Key"] for entry in top["Contents"]] == ["c"]


def test_a_large_file_goes_up_and_down_in_parts(client: tuple[Emulator, Any], tmp_path: Path) -> None:
    emulator, s3 = client
    content = bytes(range(256)) * 50_000
    in_parts = TransferConfig(multipart_threshold=5_000_000, multipart_chunksize=5_000_000, use_threads=False)

    s3.upload_fileobj(io.BytesIO(content), emulator.volume.id, "big.bin", Config=in_parts)
    s3.download_file(emulator.volume.id, "big.bin", str(tmp_path / "back"), Config=in_parts)

    assert (tmp_path / "back").read_bytes() == content
    assert [c.operation for c in emulator.world.calls].count("s3.upload-part") == 3
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=emulator.volume.id)["Contents"]] == ["big.bin"]


def test_an_upload_can_be_given_up(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    upload = s3.create_multipart_upload(Bucket=emulator.volume.id, Key="big")["UploadId"]
    s3.upload_part(Bucket=emulator.volume.id, Key="big", UploadId=upload, PartNumber=1, Body=b"x")

    s3.abort_multipart_upload(Bucket=emulator.volume.id, Key="big", UploadId=upload)

    with pytest.raises(ClientError, match="NoSuchUpload"):
        s3.upload_part(Bucket=emulator.volume.id, Key="big", UploadId=upload, PartNumber=2, Body=b"x")


def test_buckets_are_the_accounts_volumes(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    emulator.world.add_account()

    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["volume1"]
    s3.head_bucket(Bucket="volume1")
    with pytest.raises(ClientError, match="404"):
        s3.head_bucket(Bucket="volume2")


def test_what_runpod_lacks_is_501(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    bucket = emulator.volume.id
    tries = [
        lambda: s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}]}),
        lambda: s3.list_objects(Bucket=bucket),
        lambda: s3.create_bucket(Bucket="new"),
        lambda: s3.get_object_tagging(Bucket=bucket, Key="a"),
        lambda: s3.copy_object(Bucket=bucket, Key="a", CopySource=f"{bucket}/b"),
    ]

    for call in tries:
        with pytest.raises(ClientError, match="NotImplemented"):
            call()


def test_a_checksum_that_boto3_adds_by_itself_is_refused(emulator: Emulator) -> None:
    # The console must switch it off.
    s3 = s3_client(emulator, config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}))

    with pytest.raises(ClientError, match="NotImplemented"):
        s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"hello")
    s3.close()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"aws_access_key_id": "user_nobody"}, "InvalidAccessKeyId"),
        ({"aws_secret_access_key": "rps_wrong"}, "SignatureDoesNotMatch"),
        ({"region_name": "US-KS-2"}, "AuthorizationHeaderMalformed"),
    ],
)
def test_a_wrong_key_or_region_is_refused(emulator: Emulator, changes: dict[str, str], code: str) -> None:
    s3 = s3_client(emulator, **changes)

    with pytest.raises(ClientError, match=code):
        s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"")
    s3.close()


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", ".s3compat_uploads/x", "a//b"])
def test_a_key_that_is_no_plain_path_is_refused(client: tuple[Emulator, Any], key: str) -> None:
    emulator, s3 = client

    with pytest.raises(ClientError):
        s3.put_object(Bucket=emulator.volume.id, Key=key, Body=b"x")

    assert not (emulator.volume.folder.parent / "outside").exists()


def test_ranges_at_the_edges(client: tuple[Emulator, Any]) -> None:
    emulator, s3 = client
    s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"0123456789")

    def read(wanted: str) -> bytes:
        return bytes(s3.get_object(Bucket=emulator.volume.id, Key=KEY, Range=wanted)["Body"].read())

    assert [read("bytes=5-"), read("bytes=-3"), read("bytes=8-99")] == [b"56789", b"789", b"89"]
    with pytest.raises(ClientError, match="InvalidRange"):
        read("bytes=10-")
