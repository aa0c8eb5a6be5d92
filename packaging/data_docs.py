"""Writes the tables of docs/data.md from the code: `python packaging/data_docs.py`; a test compares them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tensorant_app.domain.data_codes import CODES, Severity  # noqa: E402
from tensorant_app.domain.file_kinds import ENCODINGS, IMAGE_FORMS, KINDS, LIMITS, WRAPPINGS  # noqa: E402
from tensorant_app.domain.layouts import LAYOUTS  # noqa: E402

PAGE = ROOT / "docs" / "data.md"
TITLES = {
    Severity.REFUSED: "Why a whole file is refused",
    Severity.ERROR: "Errors: a row that cannot be trained",
    Severity.WARNING: "Warnings: a row that can be trained all the same",
}


def tables() -> Mapping[str, str]:
    """By the name between the page's marks."""
    layouts = [
        (f"`{layout}`", info.title, _names(info.required), _names(info.optional), info.reading)
        for layout, info in LAYOUTS.items()
    ]
    found = {
        "kinds": _table(("kind", "what is read"), [(f"`{kind}`", text) for kind, text in KINDS.items()]),
        "wrappings": _table(
            ("around it", "what is read"),
            [*((f"`{kind}`", text) for kind, text in WRAPPINGS.items()), ("encodings", ENCODINGS)],
        ),
        "layouts": _table(("layout", "name", "needs", "may have", "how a row becomes a conversation"), layouts),
        "limits": _table(("what", "at most"), LIMITS.items()),
        "images": _table(("what came", "what is stored"), IMAGE_FORMS.items()),
    }
    for severity in Severity:
        rows = [(f"`{code}`", a.meaning, a.advice) for code, a in CODES.items() if a.severity is severity]
        found[severity.value] = f"### {TITLES[severity]}\n\n{_table(('code', 'meaning', 'what to do'), rows)}"
    return found


def render(page: str) -> str:
    """The page with its tables written anew."""
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{table}\n{end}{after}"
    return page


def _names(fields: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in fields)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
