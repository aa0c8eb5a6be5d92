"""What only the whole file shows."""

from __future__ import annotations

from random import Random

from tensorant_app.domain.copies import keys_of
from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.datasets import Record, Row, store
from tensorant_app.services.summaries import Summary


def row(number: int, question: str, answer: str, system: str = "") -> Row:
    messages = [{"role": "system", "content": system}] if system else []
    messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return store(Record(number, number + 1, b""), {"messages": messages})


def notices(*rows: Row) -> list[tuple[int | None, int | None, NoticeCode]]:
    summary = Summary()
    for one in rows:
        summary.add(one)
    return [(notice.row, notice.line, notice.code) for notice in summary.notices()]


def test_copies_and_contradictions_are_named_by_the_later_row() -> None:
    found = notices(
        row(1, "When?", "At nine."),
        row(3, "Where?", "Here."),
        row(4, "WHEN?", " at  nine."),
        row(5, "When?", "At ten."),
        row(6, "Where?", "Here."),
        row(7, "When?", "At nine.", system="Lie."),
        row(8, "When?", "At two.", system="Lie."),
        row(9, "Where?", "Here."),
    )

    assert found == [
        (4, 5, NoticeCode.COPY),
        (5, 6, NoticeCode.CONTRADICTION),
        (6, 7, NoticeCode.DUPLICATE),
        (7, 8, NoticeCode.COPY),
        (8, 9, NoticeCode.CONTRADICTION),
        (9, 10, NoticeCode.DUPLICATE),
    ]


def test_composed_and_decomposed_letters_are_the_same() -> None:
    composed, decomposed = ([{"role": "user", "content": text}] for text in ("Zürich", "Zu\u0308rich"))

    assert keys_of(composed) == keys_of(decomposed)


def test_the_first_of_many_copies_is_the_one_that_is_named() -> None:
    random = Random(5)
    texts = [str(random.randrange(200)) for _ in range(2_000)]
    summary = Summary()
    for n, text in enumerate(texts, start=1):
        summary.add(row(n, text, text))

    said = {notice.row: notice.message for notice in summary.notices()}

    first: dict[str, int] = {}
    for n, text in enumerate(texts, start=1):
        if first.setdefault(text, n) != n:
            assert said.pop(n) == f"Row {n} (line {n + 1}) repeats row {first[text]}."
    assert said == {}


def test_replies_unlike_the_others_are_named_where_there_are_enough_others() -> None:
    usual = [row(n, f"question {n}", f"{n} " + "word " * 40) for n in range(1, 60)]
    odd = [row(60, "a", "Yes."), row(61, "b", "word " * 2_000), row(62, "c", "word " * 4)]

    assert notices(*usual, *odd) == [(60, 61, NoticeCode.SHORT_REPLY), (61, 62, NoticeCode.LONG_REPLY)]
    assert notices(*usual[:7], *odd) == [(60, 61, NoticeCode.SHORT_REPLY), (61, 62, NoticeCode.LONG_REPLY)]
    assert notices(*usual[:6], *odd) == []


def test_the_same_question_with_other_tools_contradicts_nothing() -> None:
    def asked(number: int, answer: str, tool: str) -> Row:
        messages = [{"role": "user", "content": "Wind?"}, {"role": "assistant", "content": answer}]
        return store(Record(number, number, b""), {"messages": messages, "tools": [{"name": tool}]})

    found = notices(
        asked(1, "Nine.", "wind"), asked(2, "Ten.", "tide"), asked(3, "Two.", "wind"), asked(4, "nine.", "x")
    )

    assert found == [(3, 3, NoticeCode.CONTRADICTION), (4, 4, NoticeCode.COPY)]
