"""What is odd in a row that can be trained all the same: shown by row and field, never repeated in full."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.datasets import Notice, Row, name_of
from tensorant_app.domain.images import STORED_NAME
from tensorant_app.domain.json_values import are_objects, is_blank, walk

Finder = Callable[[str], Iterator[tuple[NoticeCode, str]]]
"""Looks at one text; answers a code and the sentence's end."""


def notices_of(row: Row, finders: Sequence[Finder]) -> Iterator[Notice]:
    """One for each code and field."""
    example = json.loads(row.example)
    places: list[str] = json.loads(row.places) if row.places else []
    found = [*_order_notices(example["messages"])]
    for path, text in texts_of(example):
        found += [(path, code, end) for finder in finders for code, end in finder(text)]
    for path, code, end in dict.fromkeys(found):
        where = source_path(path, places)
        yield Notice(row.row, row.line, where, code, f"{name_of(row)}: {where} {end}")


def texts_of(example: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Path and text of everything that is read in training: contents, calls and tools."""
    for name in ("messages", "tools"):
        for path, _, value in walk(example.get(name)):
            if not isinstance(value, str) or not value or path.endswith((".role", ".type", "_id", ".id")):
                continue
            if STORED_NAME.fullmatch(value) is None:
                yield f"{name}{path}", value


def source_path(path: str, places: Sequence[str]) -> str:
    """A path of the stored example as the file's author knows it."""
    found = _MESSAGE.match(path)
    if found is None or int(found[1]) >= len(places):
        return path
    return places[int(found[1])]


_MESSAGE = re.compile(r"messages\[(\d+)\]")


def _order_notices(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, NoticeCode, str]]:
    """What some models' templates refuse, or what a person hardly meant."""
    before: Mapping[str, object] = {}
    for n, message in enumerate(messages):
        path, role = f"messages[{n}]", message["role"]
        if role == before.get("role") and role in ("user", "assistant"):
            yield (
                path,
                NoticeCode.SAME_ROLE_AGAIN,
                f"is a second {role} turn in a row; some models' templates refuse it.",
            )
        if role == "system" and before.get("role", "system") != "system":
            yield (
                path,
                NoticeCode.LATE_SYSTEM,
                "is a system text after the beginning; some models' templates refuse it.",
            )
        if are_objects(calls := before.get("tool_calls")) and calls and role != "tool":
            yield f"messages[{n - 1}]", NoticeCode.UNANSWERED_CALL, "calls a tool, and no answer of it follows."
        if role == "user" and is_blank(message.get("content")):
            yield f"{path}.content", NoticeCode.EMPTY_QUESTION, "is empty."
        before = message
    reply = before.get("content")
    if isinstance(reply, str) and not before.get("tool_calls") and is_placeholder(reply):
        yield (
            f"messages[{len(messages) - 1}].content",
            NoticeCode.SHORT_REPLY,
            "says nothing; it looks like a placeholder.",
        )
    yield from _script_notices(messages)


def _script_notices(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, NoticeCode, str]]:
    said = [m for m in messages[:-1] if m["role"] == "user" and isinstance(m.get("content"), str)]
    reply = messages[-1].get("content")
    if not said or not isinstance(reply, str):
        return
    asked, answered = script_of(str(said[-1]["content"])), script_of(reply)
    if asked and answered and asked != answered:
        end = f"is written in {answered} letters, and its question in {asked} ones."
        yield f"messages[{len(messages) - 1}].content", NoticeCode.MIXED_SCRIPTS, end


_SCRIPTS = {
    "Latin": re.compile("[A-Za-z\u00c0-\u024f]"),
    "Greek": re.compile("[\u0370-\u03ff]"),
    "Cyrillic": re.compile("[\u0400-\u052f]"),
    "Hebrew": re.compile("[\u0590-\u05ff]"),
    "Arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "Indic": re.compile("[\u0900-\u0dff]"),
    "Thai": re.compile("[\u0e00-\u0e7f]"),
    "Chinese or Japanese": re.compile("[\u3040-\u30ff\u3400-\u9fff]"),
    "Korean": re.compile("[\uac00-\ud7af]"),
}
_FEWEST_LETTERS = 20
_ENOUGH_LATIN = re.compile(f"(?:[^A-Za-z]*[A-Za-z]){{{_FEWEST_LETTERS}}}")
_LOOK_AT = 2_000
"""Characters of a text that are looked at for its script."""


def script_of(text: str) -> str | None:
    """The script of most letters; None where there are too few to tell."""
    text = text[:_LOOK_AT]
    if text.isascii():
        return "Latin" if _ENOUGH_LATIN.match(text) else None
    counts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()}
    best = max(counts, key=lambda name: counts[name])
    # A sentence in few signs says as much as one in many letters.
    fewest = _FEWEST_LETTERS // 4 if best in ("Chinese or Japanese", "Korean") else _FEWEST_LETTERS
    return best if counts[best] >= fewest else None


_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_HTML = re.compile(
    r"</?(?:a|b|i|u|p|br|hr|div|span|em|strong|font|img|table|thead|tbody|tr|td|th|ul|ol|li|h[1-6]|script|style|body|"
    r"head|html|form|input|button|iframe|section|article|nav|pre|code)(?:\s[^<>]{0,500})?/?>|&(?:nbsp|amp|lt|gt|quot|#\d{2,5});",
    re.IGNORECASE,
)
_MARKS = r"[\s.…,;:!?*#()\[\]'\"_–—-]*"
_PLACEHOLDER = re.compile(rf"(?i){_MARKS}(?:n/?a|null|nan|undefined|todo|tbd|xxx+|lorem ipsum.*)?{_MARKS}", re.DOTALL)


def find_characters(text: str) -> Iterator[tuple[NoticeCode, str]]:
    """Invisible ones, control characters and HTML."""
    if not text.isascii() and (found := _INVISIBLE.search(text)):
        yield NoticeCode.INVISIBLE, f"holds the invisible character U+{ord(found[0]):04X}."
    if found := _CONTROL.search(text):
        yield NoticeCode.CONTROL_CHARACTER, f"holds the control character U+{ord(found[0]):04X}."
    if ("<" in text or "&" in text) and _HTML.search(text):
        yield NoticeCode.HTML, "holds HTML; the model would learn to write it."


def is_placeholder(reply: str) -> bool:
    """Nothing but punctuation, or a word that stands for nothing."""
    return len(reply) <= 40 and _PLACEHOLDER.fullmatch(reply) is not None


COMMON_TOKENS = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|begin_of_text|>", "<|end_of_text|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>"),
    *("<|assistant|>", "<|end|>", "<bos>", "<eos>", "<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>"),
)
"""Looked for where no base model is chosen yet."""


def token_finder(tokens: Collection[str]) -> Finder:
    """Control tokens of the project's template, typed as text."""
    known = sorted((token for token in tokens if len(token) > 1 and not token.isspace()), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, known))) if known else re.compile(r"(?!)")

    def find(text: str) -> Iterator[tuple[NoticeCode, str]]:
        if found := pattern.search(text):
            yield (
                NoticeCode.CONTROL_TOKEN,
                f"holds {found[0]} as text; the model would read it as a mark of its template.",
            )

    return find
