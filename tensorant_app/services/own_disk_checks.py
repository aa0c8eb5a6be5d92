"""Whether a Pod without a network volume can do a run: its files with the create call, its base model in the image."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.projects import Project
from tensorant_app.domain.readiness import Check, Finding, gib, passed, refused, warned
from tensorant_app.domain.spend import own_disk_month
from tensorant_app.domain.wording import count
from tensorant_app.services import pod_files
from tensorant_app.services.connections import store
from tensorant_app.settings import get_settings
from trainer.contract import MOST_PACKED, Split

_GB = 10**9
_JOB_SIZED = random.Random(0).randbytes(2_000)
"""As much as a job and its words take, and no easier to pack."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What such a Pod gets with its create call, and in its image."""

    version_key: str
    base: str
    """`name@revision`."""

    @classmethod
    def of(cls, project: Project, version: DatasetVersion) -> Carried:
        return cls(f"versions/{version.content_sha256}", f"{project.base_repo_id}@{project.base_revision}")


def check_carried(carried: Carried) -> list[Finding]:
    """No way leads files to the Pod but its create call, and none back but a person's hand."""
    found = [
        warned(
            Check.STORAGE,
            "No network volume is connected: the run's files lie on the Pod's own disk. You fetch adapter.zip from the "
            "stopped Pod and hand it in. It cannot be paused, given more time, or taken up on another machine.",
        )
    ]
    if not _fits(carried.version_key):
        found = [
            refused(
                Check.STORAGE,
                "The training and validation rows are too many for a Pod without a network volume: packed, "
                f"about {MOST_PACKED * 3 // 4_000} kB fit. Connect a volume under Connections, or train on this computer.",
            )
        ]
    if carried.base not in get_settings().trainer_bases.split(","):
        found.append(
            refused(
                Check.BASE,
                "The base model is not built into the trainer's image, and nothing else brings it to a Pod without a "
                "network volume. Connect a volume under Connections; or the operator builds the image with it.",
            )
        )
    return found


def check_own_disk(disk_gb: int, needed: int, checkpoints: int) -> Finding:
    """Its files and what it costs to keep them."""
    sentence = (
        f"{count(checkpoints, 'checkpoint')}, the adapter and its zip need about {gib(needed)} of the Pod's own disk"
    )
    if needed > disk_gb * _GB:
        return refused(Check.SPACE, f"{sentence}, which has {disk_gb:,} GB. Raise the container disk.")
    month = own_disk_month(disk_gb)
    return passed(
        Check.SPACE, f"{sentence}, which has {disk_gb:,} GB. Of a stopped Pod it costs about {month} a month."
    )


def _fits(version_key: str) -> bool:
    """As the create call would carry it; rows that are not frozen yet are another check's to refuse."""
    files = {"job": _JOB_SIZED}
    for split in (Split.TRAIN, Split.VALIDATION):
        key = f"{version_key}/{split.value}.parquet"
        if store().size(key) is not None:
            files[key] = store().fetch(key).read_bytes()
    return pod_files.pack(files) is not None
