"""Commands about data: files before they are imported, and versions that were made of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from tensorant_app.cli_recovery import As, caller_of
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.notices import COMMON_TOKENS
from tensorant_app.services import bases, comparisons, deletions, downloads, exports, file_checks, processes, row_files
from tensorant_app.services import data_check as data_checks
from tensorant_app.services.deletions import Deletable
from tensorant_app.services.exports import ExportKind

data_app = typer.Typer(no_args_is_help=True, help="Training data: files, and versions made of them.")


@data_app.command("check")
def check_data(
    file: Path,
    format_: Annotated[
        str, typer.Option("--format", help="auto, chat, sharegpt, alpaca or prompt_completion.")
    ] = "auto",
    images: Annotated[Path | None, typer.Option(help="Folder of a vision model's images.")] = None,
    vision: Annotated[
        bool, typer.Option("--vision", help="It is for a vision model: images lie in FILE, a zip, or in its rows.")
    ] = False,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Folder of the base model's tokenizer, for its control tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """What is in FILE, row by row, and what is wrong with it; exit code 1 where a row or the file cannot be used."""
    layout = data_checks.layout_named(format_)
    tokens = bases.tokens_of(tokenizer) if tokenizer else COMMON_TOKENS
    with processes.limited_memory():
        report = data_checks.check_file(file, layout=layout, images=images, is_vision=vision, tokens=tokens)
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        for sentence in data_checks.sentences_of(report):
            print(sentence)
    raise SystemExit(0 if report.is_clean else 1)


@data_app.command("mask")
def mask_data(
    file: Path,
    tokenizer: Annotated[Path, typer.Option(help="Folder with the tokenizer and its chat template.")],
    context: Annotated[int | None, typer.Option(help="The longest conversation, in tokens.")] = None,
    merge_system: Annotated[bool, typer.Option(help="Put the system text before the first user text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """What a model would read and learn of each row of FILE, and the rows that cannot be trained."""
    report = file_checks.mask_file(file, tokenizer, context, merge_system=merge_system)
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    rows = report["rows"]
    for row in rows:
        for sentence in [row["error"], *row["warnings"]]:
            if sentence:
                print(sentence if sentence.startswith(f"Row {row['row']}") else f"Row {row['row']}: {sentence}")
    bad = sum(row["error"] is not None for row in rows)
    trained = sum(row["trained_tokens"] for row in rows if row["error"] is None)
    print(f"{len(rows):,} rows, {bad:,} of them cannot be trained; {trained:,} trained tokens in the others.")


@data_app.command("export")
def export_data(
    version_id: Annotated[UUID, typer.Argument(help="As the address of its page says.")],
    to: Annotated[Path, typer.Option(help="Folder that receives the files.")] = Path(),
    format_: Annotated[ExportKind, typer.Option("--format", help="jsonl or parquet.")] = ExportKind.JSONL,
    split: Annotated[str, typer.Option(help="train, validation or test; all of them without it.")] = "",
    as_: As = None,
) -> None:
    """Write the rows of a checked or frozen version: a file for each split, or an archive with their images."""
    with caller_of(as_) as caller, unit_of_work() as session:
        found = exports.export_version(session, caller, version_id, kind=format_, split=split)
    to.mkdir(parents=True, exist_ok=True)
    written = {name: row_files.read_pieces(name, path) for name, path in found.examples.items()}
    for name, pieces in ({found.file_name: downloads.stream_zip(found)} if found.images else written).items():
        with (to / name).open("xb") as file:
            file.writelines(pieces)
        print(to / name, flush=True)


@data_app.command("compare")
def compare_data(
    older: UUID,
    newer: UUID,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    as_: As = None,
) -> None:
    """Which rows came, went, changed or moved from one version of a dataset to another."""
    with caller_of(as_) as caller, reading() as session:
        found = comparisons.compare_versions(session, caller, older, newer)
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False))
        return
    for name in ("same", "moved", "added", "removed", "changed"):
        print(f"{name}: {getattr(found, name):,}")


@data_app.command("delete")
def delete_data(
    version: Annotated[UUID | None, typer.Option(help="A version.")] = None,
    file: Annotated[UUID | None, typer.Option("--import", help="An imported file.")] = None,
    dataset: Annotated[UUID | None, typer.Option(help="A dataset, with its files and versions.")] = None,
    as_: As = None,
) -> None:
    """Delete a version, an imported file or a dataset for good; refused while anything uses it."""
    named = {Deletable.VERSION: version, Deletable.IMPORT: file, Deletable.DATASET: dataset}
    wanted = {kind: row_id for kind, row_id in named.items() if row_id is not None}
    if not wanted:
        raise Invalid({"what": "Nothing was named: use --version, --import or --dataset."})
    with caller_of(as_) as caller, unit_of_work() as session:
        freed = sum(deletions.delete(session, caller, kind, row_id) for kind, row_id in wanted.items())
    print(f"Deleted; {freed:,} bytes are given back by the worker.")
