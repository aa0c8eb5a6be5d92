"""How images come into a vision project, in words: what to pack, where it lies, and how large it may be."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.cards import stack
from tensorant_app.components.texts import meta
from tensorant_app.components.values import Text
from tensorant_app.domain.file_kinds import IMAGE_BYTES, IMAGE_PIXELS, IMAGES_MOST, MIB

ROW = (
    '{"messages": [{"role": "user", "content": "<image>What is broken?"}, '
    '{"role": "assistant", "content": "…"}], "images": ["images/0001.jpg"]}'
)
_TREE = "rows.zip\n├ rows.jsonl\n└ images\n  ├ 0001.jpg\n  └ 0002.png"


def how_to_pack(upload_limit: Text) -> rx.Component:
    """Beside the field that takes the file."""
    caps = (
        f"PNG, JPEG, WebP or GIF, each up to {IMAGE_BYTES // MIB} MiB and {IMAGE_PIXELS // 1_000_000} million pixels; up to "
        f"{IMAGES_MOST:,} images and "
    )
    return stack(
        rx.el.div(
            meta("Pack the file of rows and its images into one zip:", block=True),
            rx.el.pre(_TREE, class_name="mono meta"),
        ),
        rx.el.div(
            meta(
                "Each ",
                rx.el.code("<image>", class_name="mono"),
                " in a text is the next image of its row:",
                block=True,
            ),
            rx.el.code(ROW, class_name="mono meta wrap-any"),
        ),
        meta(
            caps,
            upload_limit,
            " a file. No address is fetched, and what says where a photo was taken is removed.",
            block=True,
        ),
        tight=True,
    )
