"""The keys by which copies are told: frozen versions hold them, so that they may never change."""

from __future__ import annotations

import pytest

from tensorant_app.domain.copies import keys_of_texts

KEPT = [
    (
        "user assistant",
        "When?|At nine.",
        "ff7d3c798c43d6dc2aca90561d736aef",
        "b942df6f440089d9e0bf8ea94c2bb06f",
    ),
    (
        "system user assistant",
        "Be brief.|When?|At nine.",
        "ff7d3c798c43d6dc2aca90561d736aef",
        "e02ffdaae6026e1fac6871732e4050f9",
    ),
    (
        "system system user assistant user assistant",
        "Be brief.|Really.|When?|At nine.|Gr\xf6\xdfe?|ZWEI\xa0Meter",
        "8375ebb45f9d5df7d50068010a2eae62",
        "6fd16d80310b7258064550e1d7c79d21",
    ),
    (
        "user system assistant",
        "O\xf9?|Be brief.|Ici\u0301",
        "035f5d7b70a8928ad9fb9af76d8f84d4",
        "d9301bd5841214d92a451570e7fc1009",
    ),
    (
        "user assistant tool assistant",
        "Where|{}|Gda\u0144sk|In Gdan\u0301sk",
        "a4eda1335fc1227b528eed8af2879193",
        "99d1d3315133d19b445fe2a9525b9d5b",
    ),
    (
        "assistant",
        "Alone",
        "e4d1573739443776be5874e4e81756cc",
        "396660e76c84bb7786f979f10b58fa79",
    ),
]


@pytest.mark.parametrize(("roles", "texts", "copy", "question"), KEPT)
def test_a_conversation_keeps_its_keys(roles: str, texts: str, copy: str, question: str) -> None:
    keys = keys_of_texts(roles.split(), texts.split("|"))

    assert [key.hex() for key in keys] == [copy, question]
