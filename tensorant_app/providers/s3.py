"""The S3 client of RunPod's network volumes: how it is set up, and its errors as sentences. boto3 loads at first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from tensorant_app.domain.errors import AuthFailed, Denied, ProviderError, Transient

_PATIENT_SECONDS = 300
"""RunPod puts large uploads together before it answers."""
_PATIENT_TRIES = 10
"""Its gateway answers 502 now and then, and says to try again so often."""
_QUICK_SECONDS = 5
_QUICK_TRIES = 2
_WRONG_KEY = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "Forbidden", "403", "401"})
_FULL = frozenset({"InsufficientStorage", "QuotaExceeded", "NoSpaceLeft", "507"})

_making = threading.Lock()


@lru_cache(maxsize=256)
def make_client(url: str, region: str, access_key: str, secret_key: str, *, is_patient: bool) -> Any:
    """One per key for the whole process. A patient one carries files, a quick one looks."""
    from botocore.config import Config

    config = Config(
        connect_timeout=4,
        read_timeout=_PATIENT_SECONDS if is_patient else _QUICK_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _PATIENT_TRIES if is_patient else _QUICK_TRIES},
        s3={"addressing_style": "path"},
        max_pool_connections=16,
        # Not listed by RunPod: a checksum behind the body could be stored as a part of the file.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,
    )
    with _making:
        return _session().create_client(
            "s3",
            region_name=region,
            endpoint_url=url,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=config,
        )


@lru_cache(maxsize=1)
def _session() -> Any:
    """It reads the description of S3, some hundred ms, once for all clients; it does not like several threads at once."""
    from botocore.session import Session

    # Nothing of this computer's own AWS settings may reach an organization's volume, nor break it.
    apart = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    return Session(session_vars=apart)


@contextmanager
def speaking(doing: str, bucket: str) -> Iterator[None]:
    """boto3's errors as ours. `doing` completes "Network volume … could not …"; no such file is `FileNotFoundError`."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        yield
    except ClientError as error:
        raise fault(error.response, doing, bucket) from error
    except (Boto3Error, BotoCoreError, HTTPClientError) as error:
        if (inner := error.__context__) is not None and isinstance(inner, ClientError):
            raise fault(inner.response, doing, bucket) from error
        raise Transient(f"Network volume {bucket} could not {doing}: {_short(error)}.") from error


def fault(response: Any, doing: str, bucket: str) -> ProviderError | FileNotFoundError:
    """What an answer without success means."""
    told = response.get("Error", {})
    code, words = str(told.get("Code", "")), str(told.get("Message", ""))
    about = response.get("ResponseMetadata", {})
    status, request_id = about.get("HTTPStatusCode", 0), about.get("RequestId")
    if code == "NoSuchBucket":
        return Denied(f"There is no network volume {bucket} in this data center. Check both under Connections.")
    if status == 404:
        return FileNotFoundError(f"Network volume {bucket} could not {doing}: there is no such file.")
    if code == "AuthorizationHeaderMalformed":
        return Denied(f"Network volume {bucket} lies in another data center. Choose its own under Connections.")
    if status == 507 or code in _FULL:
        return Denied(f"Network volume {bucket} is full. Enlarge it in RunPod, or clean up files of old runs.")
    if status in {401, 403} or code in _WRONG_KEY:
        return AuthFailed(
            f"Network volume {bucket} could not {doing}: RunPod does not accept the S3 key ({code}). "
            "Save a new one under Connections.",
            request_id=request_id,
        )
    return Transient(
        f"Network volume {bucket} could not {doing}: {words or code} (status {status}).", request_id=request_id
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
