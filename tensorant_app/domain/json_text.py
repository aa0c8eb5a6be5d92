"""Strict JSON: what Python's own reader lets pass is a fault here, and a fault says where and why."""

from __future__ import annotations

import json

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.json_values import DEPTH_LIMIT, Fault, RepeatedKey, kind_of, show


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
        return "", RowCode.CUT_OFF, f"not JSON at {where}: the row ends in the middle; it was cut off."
    if error.msg.startswith("Extra data"):
        if text[at:].strip() == ",":
            return "", RowCode.NOT_JSON, f"not JSON at {where}: a comma follows the object, where the row ends."
        return (
            "",
            RowCode.SEVERAL_VALUES,
            f"something follows the first value at {where}; put each object on a line of its own.",
        )
    return "", RowCode.NOT_JSON, f"not JSON at {where}: {_reason(error, text, at)}."


def _place(error: json.JSONDecodeError) -> int:
    """Newer Pythons point at a comma too many, older ones at what follows it; always the latter."""
    text, at = error.doc, error.pos
    if error.msg.startswith("Illegal trailing comma"):
        at += 1
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
    return at


def _reason(error: json.JSONDecodeError, text: str, at: int) -> str:
    if text[at] in INVISIBLE:
        return f"the invisible character U+{ord(text[at]):04X} stands here; remove it"
    if text[at] == "'":
        return "JSON needs double quotation marks, not single ones"
    if text[at] in "}]" and text[:at].rstrip().endswith(","):
        return f"a comma too many before {text[at]}"
    if error.msg.startswith("Expecting ',' delimiter"):
        return 'a comma is missing, or a quotation mark inside a text is not written as \\"'
    if error.msg.startswith("Invalid control character"):
        return "a line end, tab or control character stands in a text; write it as \\n, \\t or \\u00.."
    if at == 0:
        return f"the row begins with {show(text[0])}; a row is one object, which begins with {{"
    return error.msg[:1].lower() + error.msg[1:]
