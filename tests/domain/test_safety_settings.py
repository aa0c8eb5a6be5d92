"""Words and addresses that an organization adds to the safety check."""

from __future__ import annotations

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.safety import SafetyCode, check_values
from tensorant_app.domain.safety_settings import (
    ClassifierKind,
    SafetySettings,
    read_command,
    read_seconds,
    read_url,
    read_words,
    word_finder,
)

WORDS = ("Projekt Falke", "straße", "夜市", "C++", "ANNA")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Who leads projekt  FALKE?", 1),
        ("Projekt Falken", None),
        ("Die STRASSE dort", 2),
        ("Seitenstraße", None),
        ("去夜市吃飯", 3),
        ("c++ it is", 4),
        ("Hannah", None),
        ("(anna)", 5),
        ("ann a", None),
        ("", None),
    ],
)
def test_listed_words_are_found_whole_whatever_their_case(text: str, place: int | None) -> None:
    assert word_finder(WORDS)(text) == place


def test_no_words_find_nothing() -> None:
    assert word_finder(())("anything") is None


def test_a_word_is_refused_wherever_it_stands_and_the_sentence_does_not_say_it() -> None:
    example = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It is Projekt Falke."}]
    }

    (found,) = check_values(example, word_finder(WORDS))

    assert (found.code, found.path) == (SafetyCode.LISTED_WORD, "messages[1].content")
    assert found.sentence == (
        "messages[1].content holds what looks like a word of the organization's list; remove it from the data."
    )


def test_words_are_one_a_line_and_each_once() -> None:
    assert read_words("  falcon \n\nnight   market\nfalcon\n") == ("falcon", "night market")


@pytest.mark.parametrize(
    ("text", "sentence"), [("a" * 101, "longer than 100 characters"), ("\n".join(map(str, range(2001))), "2,001 words")]
)
def test_too_many_and_too_long_words_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        read_words(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://safety.example.com/check",
        "ftp://safety.example.com",
        "https://",
        "https://user:secret@safety.example.com",
        "https://safety.example.com/#x",
        "https://safety.example.com:99999/",
        "https://[::1",
        "safety.example.com",
    ],
)
def test_an_address_that_no_member_may_choose_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_url(url)

    assert set(refused.value.fields) == {"url"}


def test_plain_http_is_for_addresses_that_the_operator_allowed() -> None:
    assert read_url(" https://safety.example.com:8443/check ") == "https://safety.example.com:8443/check"
    assert read_url("http://127.0.0.1:9000/", is_private_allowed=True) == "http://127.0.0.1:9000/"


@pytest.mark.parametrize("text", ["0", "3601", "-1", "ten", ""])
def test_seconds_have_bounds(text: str) -> None:
    with pytest.raises(Invalid, match="from 1 to 3,600"):
        read_seconds(text)


def test_a_command_is_a_list_and_never_a_shells() -> None:
    assert read_command("/opt/check --level 'very strict; rm'") == ("/opt/check", "--level", "very strict; rm")
    with pytest.raises(Invalid, match="never closed"):
        read_command("check 'x")


def test_settings_that_refuse_otherwise_have_another_fingerprint() -> None:
    some = [
        SafetySettings(),
        SafetySettings(words=("a",)),
        SafetySettings(kind=ClassifierKind.HTTP, url="https://a.example.com"),
        SafetySettings(kind=ClassifierKind.COMMAND, command=("a",)),
    ]

    assert len({one.fingerprint for one in some}) == 4
    assert SafetySettings().fingerprint == some[0].fingerprint
