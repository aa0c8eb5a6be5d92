"""The fast parser takes a row only where it makes the very row that the strict reading makes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.services.fast_rows import read_plain_row

CHAT = ColumnMapping(Layout.CHAT)
GOOD = b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}'

texts = st.text(st.sampled_from('ab \n\t\0\x7f\ud83d\u200b"\\/é{}[]:,\x85\u2028A\xa0'), max_size=8)
contents = texts | st.none() | st.integers() | st.lists(texts, max_size=1)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "assistant", "user", "tool", "developer"]),
        "content": contents,
    },
    optional={"weight": st.sampled_from([0, 1, None]), "name": texts},
)


def both(body: bytes) -> tuple[Row | None, Row | None]:
    record = Record(1, 1, body)
    strict = read_record(record, CHAT)
    return read_plain_row(record), strict if isinstance(strict, Row) else None


@given(
    st.lists(messages, max_size=4), st.booleans(), st.sampled_from([None, (",", ":"), (" , ", " : ")]), st.booleans()
)
@settings(deadline=None, max_examples=300)
def test_what_the_fast_parser_takes_is_what_the_strict_one_makes(
    said: list[object], ascii_only: bool, separators: tuple[str, str] | None, has_more: bool
) -> None:
    row = {"messages": said, **({"more": 1} if has_more else {})}
    body = json.dumps(row, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")

    fast, strict = both(body)

    assert fast is None or fast == strict


@given(st.integers(0, len(GOOD)), st.binary(max_size=4), st.integers(0, 3))
@settings(deadline=None, max_examples=300)
def test_a_damaged_row_is_never_taken_for_another(at: int, put: bytes, cut: int) -> None:
    fast, strict = both(GOOD[:at] + put + GOOD[at + cut :])

    assert fast is None or fast == strict


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        b'{"messages":[{"content":"a","role":"user"},{"content":"b","role":"assistant"}]}',
        json.dumps(
            {"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": 'é\n"x"'}]},
            ensure_ascii=False,
        ).encode(),
        GOOD.replace(b"Hello", b"Z\\u00fcrich \\ud83d\\ude00 \\/"),
        GOOD.replace(b'"role"', b'"r\\u006fle"').replace(b": ", b"\t:\r "),
    ],
)
def test_a_plain_row_is_taken(body: bytes) -> None:
    fast, strict = both(body)

    assert fast is not None
    assert fast == strict


@pytest.mark.parametrize(
    "body",
    [
        GOOD.replace(b'"Hello"', b'"a", "content": "b"'),
        GOOD.replace(b'"role": "user"', b'"role": "user", "role": "user"'),
        b'{"messages": [], ' + GOOD[1:],
        GOOD.replace(b'{"role": "user"', b'{"role":"user","role":"user"'),
        GOOD.replace(b'"content": "Hello"', b'"content": "\\u0022\\u0022\\u0022\\u0022", "r\\u006fle": "assistant"'),
        GOOD.replace(b"Hello", b"\\u0000"),
        GOOD.replace(b"Hello", b"\0"),
    ],
)
def test_a_row_with_a_key_that_stands_twice_or_a_nul_is_left_to_the_strict_reading(body: bytes) -> None:
    assert both(body) == (None, None)
