"""The document's head: font, icons and the browser-side script; nothing from elsewhere.

Reflex itself writes the script that sets the remembered appearance before the first paint.
"""

from __future__ import annotations

import reflex as rx

from tensorant_app.theme import PAGE_DARK, PAGE_LIGHT

STYLESHEETS = ("/tensorant.css",)
LANGUAGE = "en"


def head() -> list[rx.Component]:
    """For `rx.App(head_components=…)`, with `stylesheets=STYLESHEETS` and `html_lang=LANGUAGE`."""
    font = {"href": "/fonts/inter-latin-wght-normal.woff2", "rel": "preload", "type": "font/woff2"}
    return [
        rx.el.link(**font, custom_attrs={"as": "font"}, cross_origin="anonymous"),
        rx.el.link(rel="icon", href="/favicon.svg", type="image/svg+xml"),
        rx.el.meta(name="theme-color", content=PAGE_LIGHT, custom_attrs={"media": "(prefers-color-scheme: light)"}),
        rx.el.meta(name="theme-color", content=PAGE_DARK, custom_attrs={"media": "(prefers-color-scheme: dark)"}),
        rx.el.script(src="/console.js", defer=True),
    ]
