"""The safety check: finds secrets and cards, leaves ordinary numbers alone, and never repeats what it found."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorant_app.domain.safety import Finding, SafetyCode, check_example, check_text

LETTERS = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zaB3dE6gH9jK2mN5p"
"""Invented, and put together here, so that no scanner takes this file for a leak."""

SECRETS = {
    "-----BEGIN " + "PRIVATE KEY-----": SafetyCode.PRIVATE_KEY,
    "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE": SafetyCode.PRIVATE_KEY,
    "-----BEGIN " + "OPENSSH PRIVATE KEY-----": SafetyCode.PRIVATE_KEY,
    "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----": SafetyCode.PRIVATE_KEY,
    "AKIA" + "IOSFODNN7EXAMPLE": SafetyCode.AWS_KEY,
    "ghp_" + LETTERS[:36]: SafetyCode.GITHUB_KEY,
    "github_pat_" + LETTERS[:22] + "_" + LETTERS: SafetyCode.GITHUB_KEY,
    "xoxb-" + "123456789012-" + LETTERS[:24]: SafetyCode.SLACK_KEY,
    "sk-" + LETTERS[:48]: SafetyCode.MODEL_API_KEY,
    "sk-proj-" + LETTERS[:20] + "_" + LETTERS[:20]: SafetyCode.MODEL_API_KEY,
    "sk-ant-api03-" + LETTERS[:40] + "-AA": SafetyCode.MODEL_API_KEY,
    "sk_live_" + LETTERS[:24]: SafetyCode.STRIPE_KEY,
    "AIza" + LETTERS[:35]: SafetyCode.GOOGLE_KEY,
    "hf_" + LETTERS[:34]: SafetyCode.HUGGING_FACE_KEY,
    "rpa_" + LETTERS[:40].upper(): SafetyCode.RUNPOD_KEY,
    "aws_secret_access_key = " + LETTERS[:40]: SafetyCode.AWS_KEY,
    "export AWS_SECRET_ACCESS_KEY=" + LETTERS[:40]: SafetyCode.AWS_KEY,
    '"AWS_SECRET_ACCESS_KEY": "' + LETTERS[:40] + '"': SafetyCode.AWS_KEY,
    "SecretAccessKey: " + LETTERS[:38] + "/+": SafetyCode.AWS_KEY,
    "hooks.slack" + ".com/services/T0AB12CD3/B0EF45GH6/" + LETTERS[:24]: SafetyCode.SLACK_KEY,
    "glpat-" + LETTERS[:20]: SafetyCode.GITLAB_KEY,
    "npm_" + LETTERS[:36]: SafetyCode.PACKAGE_KEY,
    "pypi-" + "AgEIcHlwaS5vcmcC" + LETTERS + LETTERS: SafetyCode.PACKAGE_KEY,
    "SG." + LETTERS[:22] + "." + LETTERS[:43]: SafetyCode.SENDGRID_KEY,
    "AccountName=a;AccountKey=" + (LETTERS + LETTERS)[:86] + "==": SafetyCode.AZURE_KEY,
    "postgres://shop:" + LETTERS[:12] + "@db.shop.net:5432/orders": SafetyCode.DATABASE_PASSWORD,
    "mongodb+srv://shop:" + LETTERS[:12] + "@cluster0.shop.net": SafetyCode.DATABASE_PASSWORD,
    "PuTTY-User-Key-File-3: ssh-ed25519": SafetyCode.PRIVATE_KEY,
    "---- BEGIN " + "SSH2 ENCRYPTED PRIVATE KEY ----": SafetyCode.PRIVATE_KEY,
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N": SafetyCode.SIGNED_CLAIMS,
}

CARDS = [
    "4111111111111111",
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "4111.1111.1111.1111",
    "4111\u00a01111\u00a01111\u00a01111",
    "4222222222222",
    "378282246310005",
    "3782 822463 10005",
    "5555555555554444",
    "2223003122003222",
    "6011111111111117",
    "30569309025904",
    "3056 930902 5904",
    "3530111333300000",
    "6200000000000005",
    "12 4111 1111 1111 1111 12/29",
    "Karte:4111111111111111.",
    "卡号4111111111111111。",
    "6759649826438453",
    "2200 0000 0000 0004",
    "6521 5000 0000 0006",
    "4111\u202f1111\u202f1111\u202f1111",
    "4111\u20131111\u20131111\u20131111",
    "4111/1111/1111/1111",
    "4111  1111  1111  1111",
    "4111 1111\n1111 1111",
]

ORDINARY = [
    "",
    "Order 4111 1111 1111 1112 is not a card.",
    "1234567890123456",
    "0000000000000000",
    "4006381333931",
    "0.4111111111111111",
    "1.4111 1111 1111 1111",
    "41111111111111111111",
    "order_4111111111111111",
    "9f4111111111111111",
    "41 11 11 11 11 11 11 11",
    "4111\n1111\n1111\n1111",
    "+49 (0)30 4111 1111",
    "2026-11-30 03:24:00, 1793417040123",
    "task-oriented-dialogue-with-a-long-name, risk-adjusted",
    "sk-learn and sk-a-quite-long-hyphenated-word",
    "hf_hub_download, hf_transfer",
    "ghp_ and github_pat_ are prefixes; AKIA too",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "eyJ is how Base64 of an object begins",
    "https://example.org/" + LETTERS,
    "sk-" + "x" * 48,
    "ghp_" + "x" * 36,
    "sk-" + "your0api0key0goes0here0",
    "hf_" + "A" * 34,
    "postgres://user:password@db.shop.net/orders",
    "postgres://shop:" + LETTERS[:12] + "@localhost/orders",
    "postgres://${USER}:${PASSWORD}@db.shop.net/orders",
    "aws_secret_access_key = <" + "x" * 40 + ">",
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12].strip("-"))
def test_a_secret_is_found_wherever_it_stands(secret: str) -> None:
    for text in (secret, f"Use {secret} please", f'TOKEN="{secret}"', f"https://user:{secret}@example.org"):
        assert list(check_text(text)) == [SECRETS[secret]]


@pytest.mark.parametrize("card", CARDS)
def test_a_payment_card_is_found(card: str) -> None:
    assert list(check_text(card)) == [SafetyCode.PAYMENT_CARD]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_and_numbers_are_left_alone(text: str) -> None:
    assert list(check_text(text)) == []


def test_a_finding_names_its_place_once_and_never_what_it_found() -> None:
    card, secret = "4111 1111 1111 1111", "hf_" + LETTERS[:34]
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"arguments": {"card": 4111111111111111}}}],
    }
    messages = [{"role": "user", "content": f"{card} and {card} and {secret}"}, call]

    findings = check_example(json.dumps({"messages": messages, "meta": {secret: True}}))

    assert set(findings) == {
        Finding(SafetyCode.PAYMENT_CARD, "messages[0].content"),
        Finding(SafetyCode.HUGGING_FACE_KEY, "messages[0].content"),
        Finding(SafetyCode.PAYMENT_CARD, "messages[1].tool_calls[0].function.arguments.card"),
        Finding(SafetyCode.HUGGING_FACE_KEY, "meta"),
    }
    assert len(findings) == 4
    told = " ".join(f"{finding} {finding.sentence}" for finding in findings)
    assert "4111" not in told
    assert secret not in told


def test_every_kind_has_a_sentence() -> None:
    ours = set(SafetyCode) - {SafetyCode.CLASSIFIER}  # which gives its own reasons
    sentences = {Finding(code, "messages[0].content").sentence for code in ours}

    assert len(sentences) == len(ours)
    assert all(sentence.startswith("messages[0].content holds what looks like a") for sentence in sentences)


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "1 ", "1111 ", "1234567890", "-----BEGIN A ", "eyJaaaaaaaa.eyJ", "4111."]
)
def test_no_text_takes_long(piece: str) -> None:
    started = time.process_time()

    list(check_text(piece * (200_000 // len(piece))))

    assert time.process_time() - started < 2


@given(st.text(st.sampled_from("0123456789 .-eyJsk_\u00a0é"), max_size=60))
@settings(deadline=None)
def test_no_text_makes_the_check_crash(text: str) -> None:
    assert set(check_text(text)) <= set(SafetyCode)


@given(st.from_regex(r"4[0-9]{14}", fullmatch=True))
@settings(deadline=None)
def test_of_ten_last_digits_exactly_one_makes_a_card(start: str) -> None:
    cards = [digit for digit in "0123456789" if list(check_text(start + digit))]

    assert len(cards) == 1
