"""A field that takes a file and sends it in pieces; `assets/upload.js` does the sending."""

from __future__ import annotations

from typing import Literal

import reflex as rx

from tensorant_app.components.buttons import button
from tensorant_app.components.cards import row
from tensorant_app.components.values import Flag, Text


def upload_field(
    subject_id: Text,
    *,
    of: Literal["dataset", "run"] = "dataset",
    next_href: Text = "",
    label: Text = "Choose a file",
    accept: str = ".jsonl,.ndjson,.json,.csv,.tsv,.txt,.parquet,.xlsx,.gz,.zip",
    disabled: Flag = False,
) -> rx.Component:
    """A dataset's file or a run's adapter.zip. `next_href` holds `{id}`, the import's, where the browser goes when every byte has arrived."""
    return rx.el.div(
        rx.el.label(label, html_for="upload-file"),
        rx.el.input(
            id="upload-file",
            type="file",
            disabled=disabled,
            custom_attrs={
                "accept": accept,
                "data-upload": subject_id,
                "data-upload-of": of,
                "data-upload-next": next_href,
            },
        ),
        rx.el.progress(hidden=True, custom_attrs={"aria-label": "Upload"}),
        rx.el.p(hidden=True, class_name="meta", role="status", custom_attrs={"data-upload-says": ""}),
        row(
            button("Pause", size="sm", attributes={"data-upload-pause": ""}),
            button("Cancel", kind="ghost", size="sm", attributes={"data-upload-cancel": ""}),
        ),
        class_name="stack upload",
        custom_attrs={"data-uploading": ""},
    )
