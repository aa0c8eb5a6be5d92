"""The layouts in which people keep examples, recognised by the names of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tensorant_app.domain.errors import Invalid


class Layout(StrEnum):
    CHAT = "chat"
    SHAREGPT = "sharegpt"
    ALPACA = "alpaca"
    PROMPT = "prompt_completion"


@dataclass(frozen=True, slots=True)
class LayoutInfo:
    """What a layout is called, and the fields that its columns fill."""

    title: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    reading: str
    """How a row becomes a conversation."""


LAYOUTS: Mapping[Layout, LayoutInfo] = {
    Layout.CHAT: LayoutInfo(
        "Chat (OpenAI messages)",
        ("messages",),
        ("system", "tools"),
        "as it is, a text in `system` first; `developer` becomes system, text parts become one text, `function_call`, `functions` and the role "
        "`function` become tool calls, tools and tool",
    ),
    Layout.SHAREGPT: LayoutInfo(
        "ShareGPT",
        ("conversations",),
        ("system", "tools"),
        "`from` and `value` become role and content; human, gpt, function_call and observation become user, assistant, "
        "a tool call and its answer",
    ),
    Layout.ALPACA: LayoutInfo(
        "Alpaca",
        ("instruction", "output"),
        ("input", "system", "history"),
        "instruction, a blank line and input become the question, output the reply, history the turns before",
    ),
    Layout.PROMPT: LayoutInfo(
        "Prompt and completion",
        ("prompt", "completion"),
        ("system", "tools"),
        "prompt becomes the question, completion the reply, as they stand; lists of messages follow each other",
    ),
}

_NAMES: tuple[tuple[Layout, Mapping[str, str]], ...] = (
    (Layout.CHAT, {"messages": "messages"}),
    (Layout.SHAREGPT, {"conversations": "conversations"}),
    (Layout.SHAREGPT, {"conversations": "conversation"}),
    (Layout.ALPACA, {"instruction": "instruction", "output": "output"}),
    (Layout.ALPACA, {"instruction": "instruction", "input": "context", "output": "response"}),
    (Layout.ALPACA, {"instruction": "instruction", "output": "response"}),
    (Layout.ALPACA, {"instruction": "question", "input": "context", "output": "answer"}),
    (Layout.ALPACA, {"instruction": "query", "output": "response"}),
    (Layout.PROMPT, {"prompt": "prompt", "completion": "completion"}),
    (Layout.PROMPT, {"prompt": "prompt", "completion": "response"}),
    (Layout.PROMPT, {"prompt": "question", "completion": "answer"}),
    (Layout.PROMPT, {"prompt": "question", "completion": "response"}),
    (Layout.PROMPT, {"prompt": "input", "completion": "output"}),
)
"""Which names are recognised, the first that fits; others need a mapping."""
_OTHER_NAMES: Mapping[str, str] = {"system": "system_prompt"}
"""Of fields that may be left out."""

PREFERENCES: tuple[frozenset[str], ...] = (
    frozenset({"chosen", "rejected"}),
    frozenset({"preferred_output", "non_preferred_output"}),
    frozenset({"rejected_response"}),
    frozenset({"response_j", "response_k"}),
)
_VERDICT = frozenset({"label", "kto_tag"})
_JUDGED = frozenset({"completion", "messages", "conversations", "output", "response"})
VERDICTS = _VERDICT.union(*PREFERENCES)
"""A person who says that one of these columns is the reply has chosen."""


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Which column fills which field of a layout, such as {"prompt": "question"}: what a page's mapper makes."""

    layout: Layout
    columns: Mapping[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """The column of a field; one that nobody mapped has the field's own name."""
        return self.columns.get(name, name)

    @property
    def used(self) -> frozenset[str]:
        info = LAYOUTS[self.layout]
        return frozenset(self.column(name) for name in (*info.required, *info.optional))


def as_stored(mapping: ColumnMapping) -> dict[str, object]:
    """The form of job files and of the database."""
    return {"layout": mapping.layout.value, "columns": dict(mapping.columns)}


def from_stored(stored: Mapping[str, Any]) -> ColumnMapping:
    return ColumnMapping(Layout(stored["layout"]), dict(stored["columns"]))


def choose_columns(layout: str, chosen: Mapping[str, str], columns: Collection[str]) -> ColumnMapping:
    """What a person said in a mapper; `Invalid` names every field that needs a column. An empty choice means none."""
    if layout not in [*Layout]:
        raise Invalid({"layout": "Choose how the rows are laid out."})
    info = LAYOUTS[Layout(layout)]
    picked = {name: chosen.get(name, "") for name in (*info.required, *info.optional)}
    wrong = {name: f"Choose the column that holds the {name}." for name in info.required if not picked[name]}
    wrong |= {
        name: f"The file has no column {column}; choose another."
        for name, column in picked.items()
        if column and column not in columns
    }
    used = Counter(column for column in picked.values() if column)
    wrong |= {
        name: f"The column {column} is chosen twice; each may fill one field."
        for name, column in picked.items()
        if used[column] > 1 and name not in wrong
    }
    if wrong:
        raise Invalid(wrong)
    needed = {name: picked[name] for name in info.required}
    more = {n: c for n in info.optional if (c := picked[n]) != n and (c or n in columns)}
    return ColumnMapping(Layout(layout), needed | more)


def recognise(keys: Collection[str]) -> ColumnMapping | None:
    """The layout of a row with these keys; capital letters, as in a sheet's header, make no other name."""
    found = {key.lower(): key for key in keys} | {key: key for key in keys}
    for layout, columns in _NAMES:
        if all(column in found for column in columns.values()):
            return ColumnMapping(
                layout, {name: found[column] for name, column in columns.items()} | _more(layout, found)
            )
    return None


def _more(layout: Layout, found: Mapping[str, str]) -> dict[str, str]:
    """Columns of fields that may be left out, where they have another name than their own."""
    names = {name: (name, _OTHER_NAMES.get(name, name)) for name in LAYOUTS[layout].optional}
    columns = {name: next((found[n] for n in both if n in found), name) for name, both in names.items()}
    return {name: column for name, column in columns.items() if column != name}


def is_preference(row: Mapping[str, object]) -> bool:
    """Two replies to choose between, or one with a verdict of true or false."""
    if _holds_several(row.get("output")):
        return True
    if VERDICTS.isdisjoint(row):
        return False
    is_judged = any(isinstance(row.get(name), bool) for name in _VERDICT) and not _JUDGED.isdisjoint(row)
    return is_judged or any(names <= row.keys() for names in PREFERENCES)


def _holds_several(reply: object) -> bool:
    return isinstance(reply, list) and len(reply) > 1 and all(isinstance(one, str) for one in reply)
