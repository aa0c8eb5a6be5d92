"""Commands that look through the rows of an imported file and edit them; every step is kept, audited, and undone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from sqlmodel import Session

from tensorant_app.cli_recovery import As, caller_of
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.edits import read_numbers
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.services import edits, import_rows
from tensorant_app.services.import_rows import FoundRows, Show, Which
from tensorant_app.services.row_errors import is_code

edits_app = typer.Typer(no_args_is_help=True, help="Rows of imported files.")

ImportId = Annotated[UUID, typer.Argument(help="As the address of its page says.")]
Rows = Annotated[str, typer.Option(help="Numbers of rows, such as 3,7-9.")]
Word = Annotated[str, typer.Option(help="Rows that hold this word, whatever its case.")]
Kind = Annotated[str, typer.Option(help="Rows of this kind of error or warning, such as no_reply or html.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without it a search only says how many rows it found.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@edits_app.command("rows")
def list_rows(
    import_id: ImportId,
    show: Annotated[Show, typer.Option(help="Which rows.")] = Show.READY,
    word: Word = "",
    kind: Kind = "",
    start: Annotated[int, typer.Option(help="The first one, counted from 0.")] = 0,
    as_json: AsJson = False,
    as_: As = None,
) -> None:
    """Up to 50 rows of an imported file as they are now, a line each."""
    with caller_of(as_) as caller, reading() as session:
        page = import_rows.list_rows(session, caller, import_id, _which(show, word, kind), start=start)
    if as_json:
        print(json.dumps(asdict(page), ensure_ascii=False))
        return
    for row in page.rows:
        print(f"{row.number}\t{row.state.value}\t{row.text}")


@edits_app.command("leave-out")
def leave_out(
    import_id: ImportId,
    rows: Rows = "",
    kind: Kind = "",
    word: Word = "",
    yes: Yes = False,
    as_json: AsJson = False,
    as_: As = None,
) -> None:
    """Leave rows out of all versions that are made from now on; the file keeps them."""
    _take(edits.leave_out, "left out", import_id, rows, kind, word, None, yes=yes, as_json=as_json, as_=as_)


@edits_app.command("put-back")
def put_back(
    import_id: ImportId,
    rows: Rows = "",
    kind: Kind = "",
    word: Word = "",
    yes: Yes = False,
    as_json: AsJson = False,
    as_: As = None,
) -> None:
    """Take rows as the file has them: not left out and not changed any more."""
    _take(edits.put_back, "put back", import_id, rows, kind, word, Show.LEFT_OUT, yes=yes, as_json=as_json, as_=as_)


@edits_app.command("edit")
def edit_row(
    import_id: ImportId,
    row: Annotated[int, typer.Argument(help="Its number.")],
    text: Annotated[Path, typer.Option(help="File with the row as JSON; - reads standard input.")] = Path("-"),
    as_json: AsJson = False,
    as_: As = None,
) -> None:
    """Give a row another text, read as strictly as the file; every fault is named and nothing is changed then."""
    if text != Path("-") and not text.is_file():
        raise Invalid({"text": f"There is no file {text}. Look at its name and folder."})
    body = sys.stdin.read() if text == Path("-") else text.read_text(encoding="utf-8")
    _step(lambda session, caller: edits.change_row(session, caller, import_id, row, body), import_id, as_json, as_)


@edits_app.command("append")
def append_file(
    import_id: ImportId,
    other: Annotated[UUID, typer.Argument(help="Another imported file of the same dataset.")],
    as_json: AsJson = False,
    as_: As = None,
) -> None:
    """Put the ready rows of another file behind the rows of this one."""
    _step(lambda session, caller: edits.append_file(session, caller, import_id, other), import_id, as_json, as_)


@edits_app.command("undo")
def undo(import_id: ImportId, as_json: AsJson = False, as_: As = None) -> None:
    """Take back the newest step that stands."""
    _step(lambda session, caller: edits.undo(session, caller, import_id), import_id, as_json, as_)


def _which(show: Show, word: str, kind: str) -> Which:
    if kind and not is_code(kind):
        raise Invalid({"kind": f"There is no error or warning {kind}; docs/data.md lists them."})
    return Which(show, word.strip(), kind)


def _take(
    act: Callable[..., int],
    verb: str,
    import_id: UUID,
    rows: str,
    kind: str,
    word: str,
    show: Show | None,
    *,
    yes: bool,
    as_json: bool,
    as_: str | None,
) -> None:
    """Rows by number at once; those of a kind or a search with --yes, and counted without it."""
    if bool(rows) == bool(kind or word):
        raise Invalid({"rows": "Name rows with --rows, or search them with --kind or --word."})
    because, found = "", FoundRows(read_numbers(rows) if rows else (), None)
    if not rows:
        which = _which(show or import_rows.show_of(kind), word, kind)
        with caller_of(as_) as caller, reading() as session:
            found = import_rows.find_rows(session, caller, import_id, which)
        because = kind or "search"
        if not yes:
            said = {"import": str(import_id), "found": len(found.numbers), "done": False}
            sentence = f"{len(found.numbers):,} rows are found and none is {verb}; say --yes to do it."
            print(json.dumps(said) if as_json else sentence)
            return
    _step(
        lambda session, caller: act(session, caller, import_id, found.numbers, because=because, seen=found.seen),
        import_id,
        as_json,
        as_,
    )


def _step(work: Callable[[Session, Caller], int | None], import_id: UUID, as_json: bool, as_: str | None) -> None:
    """One step, and what the rows come to after it."""
    with caller_of(as_) as caller:
        with unit_of_work() as session:
            taken = work(session, caller)
        with reading() as session:
            view = edits.show_edits(session, caller, import_id)
    if as_json:
        counts = {name: getattr(view, name) for name in ("ready", "left_out", "changed", "mended", "appended")}
        print(json.dumps({"import": str(import_id), "rows": taken, **counts, "with_errors": view.still_rejected}))
        return
    took = f"{taken:,} rows taken. " if taken else ""
    errors = f", {view.still_rejected:,} with errors" if view.still_rejected else ""
    print(f"{took}{view.ready:,} rows are ready{errors}; {view.left_out:,} left out, {view.changed:,} changed.")
