"""From a file to a frozen version in one call each, through the real services and jobs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobs import broker
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts, Shares
from tensorant_app.services import bases, imports, projects, versions, work
from tensorant_app.services.imports import ImportView
from tensorant_app.services.versions import VersionView
from tensorant_app.settings import get_settings
from tests import plain_trainer
from tests.plain_base import make_plain_base
from trainer.contract import Base, MaskJob, load

SHARES = Counts(validation=2, test=3)


def chat(question: str, answer: str = "yes") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def chats(count: int) -> list[dict[str, Any]]:
    return [chat(f"question number {n}", "yes" if n % 2 else "no") for n in range(count)]


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    """JSON lines; a text is written as it is."""
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def work_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in this process what has a process of its own, with the plain trainer: the same code, ten times as fast."""

    def run(command: Sequence[str], beat: Callable[[], None]) -> None:
        _, _, module, *_, job = command
        if module == "trainer":
            plain_trainer.mask(load(MaskJob, Path(job).read_text()))
        else:
            importlib.import_module(module).main(Path(job))

    monkeypatch.setattr(work, "run_process", run)
    monkeypatch.setattr(versions, "run_process", run)


def use_plain_trainer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORANT_TRAINER_PYTHON", str(plain_trainer.write_python(folder)))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
    get_settings.cache_clear()


def make_dataset(caller: Caller, base: Base) -> UUID:
    """A project of this base, which lies in the installation's folder of bases, with an empty dataset."""
    link = get_settings().bases_dir / base.revision
    if not link.exists():
        link.symlink_to(base.folder)
    facts = bases.inspect_base(base)
    with unit_of_work() as session:
        project_id = projects.create_project(session, caller, "Tickets", facts)
        return imports.create_dataset(session, caller, project_id, "Tickets")


_TEXT_CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "max_position_embeddings": 2048,
}


def make_vision_dataset(caller: Caller, folder: Path) -> UUID:
    """An empty dataset of a project whose base model, made in `folder`, reads images."""
    base = make_plain_base(
        folder,
        extra={"preprocessor_config.json": b"{}"},
        architectures=["Idefics3ForConditionalGeneration"],
        hidden_size=None,
        text_config=_TEXT_CONFIG,
    )
    return make_dataset(caller, base)


def receive(caller: Caller, dataset_id: UUID, path: Path) -> UUID:
    """An import whose file is here whole and that waits to be read."""
    with unit_of_work() as session:
        import_id = imports.start_import(session, caller, dataset_id, path.name)
    imports.receive_file(import_id, path)
    with unit_of_work() as session:
        imports.check_import(session, caller, import_id)
    return import_id


def read_import(caller: Caller, dataset_id: UUID, path: Path) -> UUID:
    import_id = receive(caller, dataset_id, path)
    broker.perform(imports.REACT, str(import_id))
    return import_id


def draft(caller: Caller, import_id: UUID, *, shares: Shares = SHARES, seed: int = 42, **more: Any) -> UUID:
    with unit_of_work() as session:
        return versions.create_version(session, caller, import_id, shares=shares, seed=seed, **more)


def check(caller: Caller, version_id: UUID) -> VersionView:
    with unit_of_work() as session:
        versions.check_version(session, caller, version_id)
    broker.perform(versions.REACT, str(version_id))
    return show_version(caller, version_id)


def freeze(caller: Caller, version_id: UUID) -> VersionView:
    with unit_of_work() as session:
        versions.freeze_version(session, caller, version_id)
    broker.perform(versions.REACT, str(version_id))
    return show_version(caller, version_id)


def show_import(caller: Caller, import_id: UUID) -> ImportView:
    with reading() as session:
        return imports.show_import(session, caller, import_id)


def show_version(caller: Caller, version_id: UUID) -> VersionView:
    with reading() as session:
        return versions.show_version(session, caller, version_id)
