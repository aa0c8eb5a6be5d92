"""Strict JSON: what Python's own reader lets pass is a fault here, and a fault says where and why."""

from __future__ import annotations

import json
import re

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.json_values import DEPTH_LIMIT, Fault, RepeatedKey, kind_of, show, value_faults


def parse_object(body: bytes | str) -> dict[str, object] | Fault:
    """One JSON object; keys that stand twice become a `RepeatedKey`, which `value_faults` names."""
    value = parse(body)
    if isinstance(value, dict | tuple):
        return value
    return "", RowCode.NOT_OBJECT, f"{kind_of(value)} instead of a JSON object; write {{...}}."


def begins_object(body: object) -> bool:
    """Whether a row was meant as an object, whatever else is wrong with it."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    return isinstance(text, str) and text.lstrip(_NOTHING)[:1] == "{"


def parse(body: bytes | str) -> object | Fault:
    """Any JSON value, or its fault: a tuple, which no JSON value is."""
    try:
        text = body if isinstance(body, str) else body.decode()
        value: object = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        return "", RowCode.NOT_UTF8, f"byte {error.start + 1} is not UTF-8; save the file as UTF-8."
    except json.JSONDecodeError as error:
        return _explain(error)
    except RecursionError:
        return "", RowCode.TOO_DEEP, f"more than {DEPTH_LIMIT} objects and lists inside each other."
    except ValueError:
        return "", RowCode.NUMBER_TOO_LARGE, "a number has too many digits; write it as text."
    return value


def why_no_json(text: str) -> str:
    """What keeps a text inside a row from being read as JSON; empty where nothing does, or nothing was meant so."""
    if text.lstrip()[:1] not in ("[", "{"):
        return ""
    found = parse(text)
    if isinstance(found, tuple):
        return str(found[2]).removesuffix(".").replace("the row", "the text")
    return next((f"in it, {path or 'the object'} {end}".removesuffix(".") for path, _, end in value_faults(found)), "")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    keys = [key for key, _ in pairs]
    repeated = RepeatedKey(value)
    repeated.key = next(key for key in keys if keys.count(key) > 1)
    return repeated


INVISIBLE = frozenset(
    "\u00a0\u00ad\u2007\u202f\u3000\ufeff" + "".join(map(chr, (*range(0x200B, 0x2010), *range(0x2060, 0x2065))))
)
"""Characters that look like white space or like nothing, and are neither for JSON."""
_NOTHING = "".join(INVISIBLE) + " \t\r\n"
_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _explain(error: json.JSONDecodeError) -> Fault:
    text, at = error.doc, _place(error)
    where = f"column {at + 1 - (text.rfind(chr(10), 0, at) + 1)}"
    if "\n" in text:
        where = f"line {text.count(chr(10), 0, at) + 1} of the row, {where}"
    if at >= len(text) or error.msg.startswith("Unterminated"):
        return (
            "",
            RowCode.CUT_OFF,
            f"not JSON at {where}: the row ends in the middle; it was cut off, or a line end in it is not written as \\n.",
        )
    if error.msg.startswith("Extra data"):
        first = text.lstrip(" \t\r\n")[0]
        if first not in "{[":
            return "", RowCode.NOT_JSON, f"not JSON at {where}: {_begins_with(first)}."
        return _what_follows(text[at:].strip(" \t\r\n"), where)
    return "", RowCode.NOT_JSON, f"not JSON at {where}: {_reason(error, text, at)}."


def _what_follows(rest: str, where: str) -> Fault:
    """Behind a whole value."""
    if rest == ",":
        return "", RowCode.NOT_JSON, f"not JSON at {where}: a comma follows the object, where the row ends."
    if rest[0] in "}]":
        return "", RowCode.NOT_JSON, f"not JSON at {where}: {rest[0]} closes nothing; there is one too many."
    if rest[0] in INVISIBLE:
        return "", RowCode.NOT_JSON, f"not JSON at {where}: {_invisible(rest[0])}."
    if rest.startswith(_COMMENTS):
        return "", RowCode.NOT_JSON, f"not JSON at {where}: a comment follows the object, and JSON has none; remove it."
    said = f"something follows the first value at {where}; put each object on a line of its own."
    return "", RowCode.SEVERAL_VALUES, said


def _place(error: json.JSONDecodeError) -> int:
    """Newer Pythons point at a comma too many, older ones at what follows it; always the latter."""
    text, at = error.doc, error.pos
    if error.msg.startswith("Illegal trailing comma"):
        at += 1
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
    return at


def _reason(error: json.JSONDecodeError, text: str, at: int) -> str:
    sign, before = text[at], text[:at].rstrip()
    if sign in INVISIBLE:
        return _invisible(sign)
    if sign == "'":
        return "JSON needs double quotation marks, not single ones"
    if sign in _TYPOGRAPHIC:
        return f"the quotation mark {show(sign)} is a typographic one; JSON needs the plain one"
    if sign in "}]" and before.endswith(","):
        return f"a comma too many before {sign}"
    if text.startswith(_COMMENTS, at):
        return "a comment stands here, and JSON has none; remove it"
    if (word := _WORD.match(text, at)) and word[0] in _PYTHON:
        return f"Python writes {word[0]}, and JSON {_PYTHON[word[0]]}"
    if before.endswith((":", "-")) and sign in "+.-":
        return "a number begins with a digit, or with - and one"
    if error.msg.startswith("Expecting ',' delimiter"):
        if sign.isdigit() and _ZERO.search(before[-4:]):
            return "a number other than 0 begins with no 0"
        return 'a comma is missing, or a quotation mark inside a text is not written as \\"'
    if error.msg.startswith("Expecting property name"):
        return "a key stands in double quotation marks"
    if sign == "\0":
        return "NUL stands in a text; remove it"
    if error.msg.startswith("Invalid control character"):
        what = f"the character U+{ord(sign):04X} (a line end, tab or control character)"
        return f"{what} stands in a text; write it as \\n, \\t or \\u{ord(sign):04x}"
    if error.msg.startswith("Invalid \\"):
        return r"a backslash begins no such sign; write \\ for a backslash"
    if at == 0:
        return _begins_with(sign)
    return error.msg[:1].lower() + error.msg[1:]


def _begins_with(sign: str) -> str:
    return f"the row begins with {show(sign)}; a row is one object, which begins with {{"


def _invisible(sign: str) -> str:
    return f"the invisible character U+{ord(sign):04X} stands here; remove it"


_COMMENTS = ("//", "/*", "#")
_TYPOGRAPHIC = "\u201c\u201d\u201e\u201f\u2018\u2019\u00ab\u00bb"
_WORD = re.compile(r"[A-Za-z]+")
_PYTHON = {"None": "null", "True": "true", "False": "false"}
_ZERO = re.compile(r"[:,\[ ]-?0$")
