"""The sentences that name repeated rows, and the keys that tell the beginning of a conversation."""

from __future__ import annotations

from tensorant_app.domain.copies import read_conversation
from tensorant_app.domain.leakage import Likeness, Repeats, leak_sentences
from trainer.contract import Split


def repeats(likeness: Likeness, split: Split, against: Split, *shown: tuple[int, int], of: int = 10) -> Repeats:
    return Repeats(likeness, split, against, len(shown), of, shown)


def test_a_leak_is_summed_over_the_ways_in_which_rows_repeat() -> None:
    found = [
        repeats(Likeness.EXACT, Split.TEST, Split.TRAIN, (2, 5), (6, 9), (9, 31)),
        repeats(Likeness.COPY, Split.TEST, Split.TRAIN, (4, 7), (7, 1)),
        repeats(Likeness.NEAR, Split.VALIDATION, Split.TRAIN, (3, 3)),
        repeats(Likeness.EXACT, Split.TRAIN, Split.TRAIN, (8, 4)),
    ]

    assert leak_sentences(found) == [
        "5 of 10 test rows stand in training as well: 3 exactly, 2 but for case, white space, system text or tools.",
        "1 of 10 validation rows stands in training as well: 1 nearly word for word.",
    ]


def test_each_way_names_its_first_rows_and_what_they_repeat() -> None:
    many = repeats(Likeness.EXACT, Split.TRAIN, Split.TRAIN, *((n, 1) for n in range(2, 12)), of=400)

    assert many.sentence == (
        "10 of 400 training rows repeat other training rows exactly: 2 (of 1), 3 (of 1), 4 (of 1), 5 (of 1), 6 (of 1), "
        "7 (of 1), 8 (of 1), 9 (of 1) …"
    )


def test_a_conversation_has_a_key_for_each_reply_that_another_one_may_end_with() -> None:
    turns = [
        ("system", "Be brief."),
        ("user", "Hello  THERE"),
        ("assistant", "Hi"),
        ("user", "And?"),
        ("assistant", "No"),
    ]
    long = read_conversation([{"role": role, "content": text} for role, text in turns])
    short = read_conversation([{"role": role, "content": text.lower()} for role, text in turns[1:3]])
    other = read_conversation([{"role": role, "content": text} for role, text in (*turns[1:2], ("assistant", "Ho"))])

    assert long.beginnings[:1] == short.beginnings
    assert len(long.beginnings) == 2
    assert other.beginnings != short.beginnings
    assert long.text == "hellothere hi and? no"
