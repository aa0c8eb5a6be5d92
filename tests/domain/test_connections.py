"""What a connection asks for, and what it says of what was typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensorant_app.domain.connections import (
    CREDENTIALS,
    LAST_FOUR_OF,
    S3_DATA_CENTERS,
    ConnectionKind,
    read_credentials,
    split_credentials,
    volume_month,
)
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.money import Money

STORAGE = {
    "data_center": "EU-RO-1",
    "volume_id": " vol123abc ",
    "access_key": "user_0123456789ab",
    "secret_key": "rps_0123456789ab",
}


def test_spaces_around_are_not_meant() -> None:
    assert read_credentials(ConnectionKind.RUNPOD_STORAGE, STORAGE)["volume_id"] == "vol123abc"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("data_center", "", "Choose a data center"),
        ("data_center", "US-TX-1", "US-TX-1 has no S3 address"),
        ("volume_id", "../other", "letters, digits and dashes"),
        ("volume_id", "", "Network volume id is missing"),
        ("access_key", "short", "12 to 300 characters"),
        ("secret_key", "rps_two words here", "one word"),
    ],
)
def test_each_wrong_field_is_named(field: str, value: str, words: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_credentials(ConnectionKind.RUNPOD_STORAGE, {**STORAGE, field: value})

    assert set(refusal.value.fields) == {field}
    assert words in refusal.value.fields[field]


def test_a_refusal_never_repeats_a_secret() -> None:
    with pytest.raises(Invalid) as refusal:
        read_credentials(ConnectionKind.RUNPOD_COMPUTE, {"api_key": "rpa_my secret"})

    assert "my secret" not in str(refusal.value)


@pytest.mark.parametrize("kind", ConnectionKind)
def test_every_secret_is_sealed_and_nothing_else(kind: ConnectionKind) -> None:
    values = {one.name: f"value-of-{one.name}" for one in CREDENTIALS[kind]}

    shown, sealed = split_credentials(kind, values)

    assert {one.name for one in CREDENTIALS[kind] if one.is_secret} == set(sealed)
    assert shown | sealed == values
    assert LAST_FOUR_OF[kind] in sealed


def test_a_volumes_month_is_cheaper_above_a_terabyte() -> None:
    assert volume_month(100) == Money.dollars(7)
    assert volume_month(1_000) == Money.dollars(70)
    assert volume_month(1_500) == Money.dollars(95)


def test_the_data_centers_are_those_of_the_reference() -> None:
    path = Path(__file__).resolve().parents[2] / "shared" / "runpod" / "s3-endpoints.json"
    if not path.exists():
        pytest.skip("The reference is not in this checkout.")
    assert set(json.loads(path.read_text())) == set(S3_DATA_CENTERS)
