"""The process that looks at the first rows of an upload: `python -m tensorant_app.services.preview_work JOB`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tensorant_app.domain.data_codes import FileCode
from tensorant_app.domain.import_previews import pack
from tensorant_app.domain.layouts import as_stored
from tensorant_app.services.processes import limit_memory
from tensorant_app.services.reading import Beginning, read_beginning
from trainer.contract import RESULT, write_file

_NEEDS_MAPPING = (FileCode.UNKNOWN_LAYOUT, FileCode.WRONG_LAYOUT)


def main(job_path: Path) -> None:
    """Look at job["source"] and write result.json beside the job."""
    job = json.loads(job_path.read_text())
    found = read_beginning(Path(job["source"]), with_images=job.get("images", False))
    write_file(job_path.parent / RESULT, json.dumps(as_preview(found)))


def as_preview(found: Beginning) -> dict[str, Any]:
    """`refused`: why no mapping can help; `question`: why one is needed."""
    said = found.error.message if found.error else None
    asks = found.error is not None and found.error.code in _NEEDS_MAPPING and bool(found.columns)
    return {
        "refused": None if asks else said,
        "question": said if asks else None,
        "kind": found.kind.value if found.kind else None,
        "wrapping": found.wrapping.value,
        "columns": list(found.columns),
        "mapping": as_stored(found.mapping) if found.mapping else None,
        "records": [packed for record in found.records if (packed := pack(record)) is not None],
    }


if __name__ == "__main__":
    limit_memory()
    main(Path(sys.argv[1]))
