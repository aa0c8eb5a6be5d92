"""What is odd in a row that can be trained all the same: shown by row and field, never repeated in full."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from html.entities import name2codepoint

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.datasets import Notice, Row, name_of, source_path
from tensorant_app.domain.images import STORED_NAME
from tensorant_app.domain.json_values import is_blank, walk
from tensorant_app.domain.tool_notices import call_notices

Finder = Callable[[str], Iterator[tuple[NoticeCode, str]]]
"""Looks at one text; answers a code and the sentence's end."""


def notices_of(row: Row, finders: Sequence[Finder]) -> Iterator[Notice]:
    """One for each code and field."""
    example = json.loads(row.example)
    places: list[str] = json.loads(row.places) if row.places else []
    found = [*_order_notices(example["messages"]), *call_notices(example["messages"], example.get("tools"))]
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
        if role == "user" and is_blank(message.get("content")):
            yield f"{path}.content", NoticeCode.EMPTY_QUESTION, "is empty."
        if role != "assistant" and message.get("weight"):
            yield f"{path}.weight", NoticeCode.IDLE_WEIGHT, f"is 1, and a message of the role {role} is not learned."
        before = message
    reply = before.get("content")
    if isinstance(reply, str) and not before.get("tool_calls") and is_placeholder(reply):
        yield (
            f"messages[{len(messages) - 1}].content",
            NoticeCode.PLACEHOLDER,
            "says nothing; it looks like a placeholder.",
        )
    yield from _script_notices(messages)


def _script_notices(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, NoticeCode, str]]:
    said = [m for m in messages[:-1] if m["role"] == "user" and isinstance(m.get("content"), str)]
    reply = messages[-1].get("content")
    if not said or not isinstance(reply, str):
        return
    asked, answered = script_of(str(said[-1]["content"])), script_of(reply)
    if asked and answered and asked != answered and not _asks_for_another(messages):
        end = f"is written in {answered} letters, and its question in {asked} ones."
        yield f"messages[{len(messages) - 1}].content", NoticeCode.MIXED_SCRIPTS, end


def _asks_for_another(messages: Sequence[Mapping[str, object]]) -> bool:
    """A translation, or a reply in a named language, is meant to be written otherwise, whoever says so in the row."""
    return any(_TRANSLATE.search(str(message.get("content"))[:_LOOK_AT]) for message in messages[:-1])


_TRANSLATE = re.compile(
    r"(?i)translat|transliterat|traduc|tradui|übersetz|перевед|перевод|翻译|翻譯|翻訳|번역|ترجم|अनुवाद"
    r"|\bin(?:to)? (?:arabic|bulgarian|chinese|english|farsi|french|german|greek|hebrew|hindi|italian|japanese|korean|mandarin|"
    r"persian|portuguese|russian|serbian|spanish|thai|turkish|ukrainian|urdu)\b"
    r"|\bauf (?:arabisch|chinesisch|deutsch|englisch|griechisch|japanisch|koreanisch|russisch|ukrainisch)\b"
    r"|(?:по-|на )(?:английск|китайск|немецк|русск|украинск|японск)|用(?:英|中|日|俄|韩)|(?:英|中国|日本|韓国|ロシア)語で"
)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
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
    """The script of most letters outside blocks of code; None where there are too few to tell."""
    text = text[:_LOOK_AT]
    text = _CODE.sub("", text) if "```" in text else text
    if text.isascii():
        return "Latin" if _ENOUGH_LATIN.match(text) else None
    counts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()}
    best = max(counts, key=lambda name: counts[name])
    # A sentence in few signs says as much as one in many letters.
    fewest = _FEWEST_LETTERS // 4 if best in ("Chinese or Japanese", "Korean") else _FEWEST_LETTERS
    return best if counts[best] >= fewest else None


_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\u2800\u3164\ufeff\uffa0"
    "\U000e0000-\U000e007f]"
)
_JOINED = "\u0600-\u109f\u1780-\u18af\u1cd0-\u1cff\ua8e0-\ua9ff\ufb50-\ufdff\ufe70-\ufefc"
"""Scripts that write joiners, from Arabic to Burmese, Khmer and Mongolian."""
_EMOJI = "\u00a9\u00ae\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINER = re.compile(
    f"(?<![{_JOINED}])\u200c|(?<![{_JOINED}{_EMOJI}\ufe0f\u20e3])\u200d|(?<=[{_EMOJI}\ufe0f\u20e3])\u200d(?![{_EMOJI}])"
)
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{2,6}\U000e007f")
"""Flags of regions, such as England's, are written in invisible letters."""
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TAGS = (
    "a|abbr|address|area|article|aside|audio|b|base|bdi|bdo|blockquote|body|br|button|canvas|caption|center|cite|"
    "code|col|colgroup|dd|del|details|dfn|dialog|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|"
    "frame|frameset|h1|h2|h3|h4|h5|h6|head|header|hgroup|hr|html|i|iframe|img|input|ins|kbd|label|legend|li|link|"
    "main|map|mark|marquee|menu|meta|meter|nav|nobr|noscript|object|ol|optgroup|option|output|p|param|picture|"
    "pre|progress|q|s|samp|script|section|select|small|source|span|strike|strong|style|sub|summary|sup|svg|table|"
    "tbody|td|template|textarea|tfoot|th|thead|time|title|tr|tt|u|ul|video|wbr"
)
_ATTRIBUTE = (
    r"\s+(?:[A-Za-z_:@][\w:.-]{0,60}\s{0,9}=\s{0,9}(?:\"[^\"<>]{0,2000}\"|'[^'<>]{0,2000}'|[^\s\"'<>=]{1,500})"
    r"|async|autofocus|autoplay|checked|controls|defer|disabled|hidden|loop|multiple|muted|novalidate|open|readonly|required|"
    r"selected|data-[\w-]{1,60})"
)
_HTML = re.compile(
    rf"</(?:{_TAGS})\s{{0,9}}>|(?<!\w)<(?:{_TAGS})\s{{0,9}}/?>|<(?:br|hr|wbr|img|input)\s{{0,9}}/?>"
    rf"|<(?:{_TAGS})(?:{_ATTRIBUTE}){{1,40}}\s{{0,9}}/?>|<!--|<!doctype\s|&\#(?:\d{{2,7}}|x[0-9a-f]{{2,6}});",
    re.IGNORECASE,
)
"""A tag without attributes behind a word is a type's parameter, such as `List<a>`, unless it is one that stands alone."""
_ENTITY = re.compile("&([A-Za-z]{2,8});")
_SIGNS = (
    "amp apos lt gt quot mdash ndash hellip lsquo rsquo ldquo rdquo sbquo bdquo bull dagger permil euro trade ensp emsp "
    "thinsp zwj zwnj lrm rlm larr rarr uarr darr"
)
_ENTITIES = {*_SIGNS.split(), *(name for name, code in name2codepoint.items() if code < 0x100)} - {
    "not",
    "para",
    "sect",
    "times",
}
"""The others are names of variables as well, whose address a program takes: `x = &sum;`."""
_MARKS = r"[\s.…,;:!?*#()\[\]'\"_–—-]*"
_PLACEHOLDER = re.compile(rf"(?i){_MARKS}(?:n/?a|null|nan|undefined|todo|tbd|xxx+|lorem ipsum.*)?{_MARKS}", re.DOTALL)


def find_characters(text: str) -> Iterator[tuple[NoticeCode, str]]:
    """Invisible ones, control characters and HTML."""
    if not text.isascii() and (sign := _find_invisible(text)):
        yield NoticeCode.INVISIBLE, f"holds the invisible character U+{ord(sign):04X}."
    if found := _CONTROL.search(text):
        yield NoticeCode.CONTROL_CHARACTER, f"holds the control character U+{ord(found[0]):04X}."
    elif "\ufffd" in text:
        yield NoticeCode.CONTROL_CHARACTER, "holds U+FFFD, which stands where a character was lost in another encoding."
    if ("<" in text or "&" in text) and (_HTML.search(text) or _holds_entity(text)):
        yield NoticeCode.HTML, "holds HTML; the model would learn to write it."


def _find_invisible(text: str) -> str | None:
    """Nothing where it belongs to the script, to an emoji or to a flag."""
    if "\U000e007f" in text:
        text = _FLAG.sub("", text)
    found = _INVISIBLE.search(text) or _JOINER.search(text)
    return found[0] if found else None


def _holds_entity(text: str) -> bool:
    return any(
        found[1] in _ENTITIES or found[1].lower() in ("amp", "lt", "gt", "quot") for found in _ENTITY.finditer(text)
    )


def is_placeholder(reply: str) -> bool:
    """Nothing but punctuation, or a word that stands for nothing."""
    return len(reply) <= 40 and _PLACEHOLDER.fullmatch(reply) is not None


COMMON_TOKENS = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|begin_of_text|>", "<|end_of_text|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>"),
    *("<|assistant|>", "<|end|>", "<bos>", "<eos>", "<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>"),
    *("<|eom_id|>", "<|python_tag|>", "<|eot|>", "<|header_start|>", "<|header_end|>", "<|channel|>", "<|message|>"),
    *("<|return|>", "<|start|>", "<|call|>", "<|im_sep|>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<unk>"),
    *("<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<pad>"),
    *("<\uff5cend\u2581of\u2581sentence\uff5c>"),
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
