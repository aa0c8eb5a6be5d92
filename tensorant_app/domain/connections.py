"""Accounts of the outside world: what each kind of connection asks for, what state it is in, what its volume costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.money import Money

LOCAL, RUNPOD = "local", "runpod"
"""Where a run can be trained; the words that settings and machines carry."""


class ConnectionKind(StrEnum):
    """One of each kind in an organization."""

    RUNPOD_COMPUTE = "runpod_compute"
    RUNPOD_STORAGE = "runpod_storage"

    @property
    def label(self) -> str:
        return {self.RUNPOD_COMPUTE: "RunPod compute", self.RUNPOD_STORAGE: "RunPod storage"}[self]

    @property
    def provider(self) -> str:
        """Whose account it is, in the word that settings and machines carry."""
        return RUNPOD


class ConnectionState(StrEnum):
    """What the last check said."""

    OK = "ok"
    FAILED = "failed"
    UNCHECKED = "unchecked"


S3_DATA_CENTERS = (
    "EU-CZ-1",
    "EU-RO-1",
    "EUR-IS-1",
    "EUR-NO-1",
    "US-CA-2",
    "US-GA-2",
    "US-IL-1",
    "US-KS-2",
    "US-MD-1",
    "US-MO-1",
    "US-MO-2",
    "US-NC-1",
    "US-NC-2",
    "US-NE-1",
    "US-WA-1",
)
"""Where RunPod answers for a network volume over S3 (its documentation, November 2026): elsewhere nothing could be
fetched back."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One thing that a connection asks for."""

    name: str
    label: str
    hint: str
    is_secret: bool = False
    choices: tuple[str, ...] = ()


CREDENTIALS: dict[ConnectionKind, tuple[Credential, ...]] = {
    ConnectionKind.RUNPOD_COMPUTE: (
        Credential(
            "api_key",
            "API key",
            "RunPod console, Settings, API keys: Restricted, with read and write for Pods and read for billing and volumes",
            is_secret=True,
        ),
    ),
    ConnectionKind.RUNPOD_STORAGE: (
        Credential("data_center", "Data center", "Where the network volume lies", choices=S3_DATA_CENTERS),
        Credential("volume_id", "Network volume id", "RunPod console, Storage: the id under the volume's name"),
        Credential("access_key", "S3 access key", "RunPod console, Settings, S3 API keys: begins with user_", True),
        Credential("secret_key", "S3 secret key", "Shown once by RunPod when the key is made: begins with rps_", True),
    ),
}
LAST_FOUR_OF = {ConnectionKind.RUNPOD_COMPUTE: "api_key", ConnectionKind.RUNPOD_STORAGE: "secret_key"}

_SECRET = re.compile(r"[\x21-\x7e]{12,300}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{2,63}")


def read_credentials(kind: ConnectionKind, typed: Mapping[str, str]) -> dict[str, str]:
    """What was typed, without the spaces around it; or `Invalid`, whose sentences never repeat a secret."""
    values = {one.name: str(typed.get(one.name, "")).strip() for one in CREDENTIALS[kind]}
    wrong = {one.name: sentence for one in CREDENTIALS[kind] if (sentence := _complaint(one, values[one.name]))}
    if wrong:
        raise Invalid(wrong)
    return values


def _complaint(one: Credential, value: str) -> str:
    if not value:
        return f"{one.label} is missing." if not one.choices else f"Choose a {one.label.lower()}."
    if one.choices:
        return "" if value in one.choices else f"{one.label} {value[:40]} has no S3 address; choose one of the list."
    if one.is_secret:
        return "" if _SECRET.fullmatch(value) else f"{one.label} is one word of 12 to 300 characters; paste it whole."
    return "" if _ID.fullmatch(value) else f"{one.label} is letters, digits and dashes, such as agv6w2qcg7."


def split_credentials(kind: ConnectionKind, values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What may be shown, and what is sealed."""
    secret = {one.name for one in CREDENTIALS[kind] if one.is_secret}
    shown = {name: value for name, value in values.items() if name not in secret}
    return shown, {name: values[name] for name in secret}


_GB_OF_FIRST_TIER = 1_000
_FIRST_TIER, _SECOND_TIER = Money.dollars("0.07"), Money.dollars("0.05")


def volume_month(size_gb: int) -> Money:
    """A month of a standard network volume by RunPod's list of November 2026: $0.07 a GB, above 1 TB $0.05."""
    above = max(size_gb - _GB_OF_FIRST_TIER, 0)
    return _FIRST_TIER * (size_gb - above) + _SECOND_TIER * above
