"""The rows of a version for other programs: one split, or all of them in an archive, as JSON Lines or Parquet."""

from __future__ import annotations

import json
from enum import StrEnum
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store
from tensorant_app.services.downloads import Bundle, file_of, slug
from tensorant_app.services.image_files import IMAGES
from tensorant_app.services.lookup import own_row
from tensorant_app.services.versions import files_key
from trainer.contract import Split


class ExportKind(StrEnum):
    JSONL = "jsonl"
    PARQUET = "parquet"


def export_version(
    session: Session, caller: Caller, version_id: UUID, *, kind: str = ExportKind.JSONL, split: str = ""
) -> Bundle:
    """Every row as it is trained; without a split all of them. Test rows too: who trains on them measures memory.

    Rows with images come in an archive with them, which can be imported as it is.
    """
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    if kind not in [*ExportKind]:
        raise Invalid({"format": f"There is no format {kind[:20]}. Use {' or '.join(ExportKind)}."})
    if split and split not in [*Split]:
        raise Invalid({"split": f"There is no split {split[:20]}. Use {', '.join(Split)}, or none for all."})
    folder = files_key(version)
    dataset = session.get_one(Dataset, version.dataset_id)
    name = slug(f"{dataset.name} v{version.number}{f' {split}' if split else ''}")
    write_audit(session, caller, "versions.export", version.id, kind=str(kind), split=split or "all")
    splits = [Split(split)] if split else list(Split)
    files = {f"{one.value}.{kind}": file_of(f"{folder}/{one.value}.parquet") for one in splits}
    images = found if (found := store().fetch(f"{folder}/{IMAGES}")).is_dir() else None
    if split:
        return Bundle({}, files, f"{name}-{kind}.zip" if images else f"{name}.{kind}", images)
    about = {
        "dataset": dataset.name,
        "version": version.number,
        "content_sha256": version.content_sha256,
        "split": version.split,
        "rows": (version.report or {}).get("rows"),
    }
    texts = {"version.json": json.dumps(about, indent=2, ensure_ascii=False) + "\n"}
    return Bundle(texts, files, f"{name}-{kind}.zip", images)
