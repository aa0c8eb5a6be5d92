"""The images of a version: those that its rows name, carried along from the imports that the rows come from."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.images import STORED_NAME, stored_images
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.image_files import IMAGES
from tensorant_app.services.import_images import thumbnail_in
from tensorant_app.services.lookup import own_row
from tensorant_app.services.overlays import overlay_of


def image_folders(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Beside the rows of each source of a check's job, and of those whose rows were added to it."""
    added = [path for one in sources for path, _ in one["edits"].get("appended", ())]
    beside = [Path(path).parent / IMAGES for path in (*(one["rows"] for one in sources), *added)]
    return [str(folder) for folder in dict.fromkeys(beside) if folder.is_dir()]


def carry_images(splits: Iterable[Path], folders: Sequence[Path], target: Path) -> int:
    """Put every image that a row of the splits names into `target`, once; answers how many there are."""
    import pyarrow.parquet as pq

    carried: set[str] = set()
    target.mkdir(exist_ok=True)
    for path in splits:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(256, columns=["example"], use_threads=False):
                for text in batch.column("example").to_pylist():
                    for name in stored_images(json.loads(text)):
                        if STORED_NAME.fullmatch(name) and name not in carried:
                            carried.add(name)
                            link_file(_found(name, folders), target / name)
    return len(carried)


def _found(name: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise Invalid({"images": f"A row names the image {name[:12]}…, which is not in the store. Leave that row out."})


def link_file(source: str | Path, target: str | Path) -> None:
    """Images never change, so one file under two names will do; a copy where the disk knows no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def find_thumbnail(session: Session, caller: Caller, version_id: UUID, name: str) -> Path:
    """A small WebP of an image that the version's rows name."""
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    sources = [version.import_id, *map(UUID, version.split.get("files", {}).values())]
    added = [UUID(one.source) for source in sources for one in overlay_of(session, source, version.edit_id).appended]
    return thumbnail_in([*sources, *added], name)
