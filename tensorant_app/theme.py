"""Colours, sizes and fonts of the console, for Radix and for what draws without a stylesheet: charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import reflex as rx

THEME = rx.theme(
    appearance="inherit",
    accent_color="iris",
    gray_color="slate",
    radius="medium",
    scaling="95%",
    panel_background="solid",
)

FONT = '"Inter Variable", system-ui, sans-serif'
PAGE_LIGHT = "#ffffff"
PAGE_DARK = "#111113"


@dataclass(frozen=True, slots=True)
class Ink:
    """The colours of a chart in one appearance; the stylesheet's tokens by value, for Plotly reads no variables."""

    line: str
    faint_line: str
    text: str
    second_text: str
    grid: str
    axis: str
    panel: str
    tip: str
    tip_border: str


INK: Mapping[str, Ink] = {
    "light": Ink(
        line="#5b5bd6",
        faint_line="rgba(91,91,214,.38)",
        text="#1c2024",
        second_text="#60646c",
        grid="rgba(0,0,45,.09)",
        axis="rgba(0,0,47,.15)",
        panel="#ffffff",
        tip="#ffffff",
        tip_border="#d9d9e0",
    ),
    "dark": Ink(
        line="#6e6ade",
        faint_line="rgba(110,106,222,.42)",
        text="#edeef0",
        second_text="#b0b4ba",
        grid="rgba(211,237,248,.11)",
        axis="rgba(214,235,253,.19)",
        panel="#18191b",
        tip="#111113",
        tip_border="#363a3f",
    ),
}
