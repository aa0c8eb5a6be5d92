"""What the pages of people who are not signed in are made of; they have no state, so they open no socket."""

from __future__ import annotations

from typing import Literal

import reflex as rx
from reflex_components_core.el.elements.base import BaseHTML

from tensorant_app.components.links import native_form
from tensorant_app.components.values import Node

# What the server said comes in a cookie, since in the address anybody could put words into our mouth.
_READ_WHAT_WAS_SAID = """
useEffect(() => {
  const next = new URLSearchParams(window.location.search).get("next");
  const onward = document.querySelector("input[name=next]");
  if (onward && next) onward.value = next;
  const found = document.cookie.split("; ").find((cookie) => cookie.startsWith("tensorant-said="));
  if (!found) return;
  document.cookie = "tensorant-said=; Max-Age=0; path=/";
  let said = {};
  try { said = JSON.parse(decodeURIComponent(found.slice("tensorant-said=".length))); } catch { return; }
  for (const [name, text] of Object.entries(said)) {
    const place = document.querySelector(`[data-said=${CSS.escape(name)}]`);
    if (place) { place.textContent = text; place.hidden = false; }
    const field = document.querySelector(`input[name=${CSS.escape(name)}]:not([type=password])`);
    if (field) field.value = text;
  }
}, []);
"""

AutoComplete = Literal["username", "current-password", "new-password", "organization", "name", "email"]


class Said(BaseHTML):
    """Fills the places for the server's sentence, and the fields with what was typed before."""

    tag = "span"

    def add_imports(self) -> dict[str, list[rx.ImportVar]]:
        return {"react": [rx.ImportVar(tag="useEffect")]}

    def add_hooks(self) -> list[str]:
        return [_READ_WHAT_WAS_SAID]


def said() -> rx.Component:
    """Where the server's answer to a form stands."""
    return rx.fragment(
        rx.el.p(hidden=True, role="alert", class_name="callout red", custom_attrs={"data-said": "error"}),
        rx.el.p(hidden=True, role="status", class_name="callout", custom_attrs={"data-said": "done"}),
        Said.create(hidden=True),
    )


def door(title: str, sentence: str, *fields: Node, action: str, submit: str) -> rx.Component:
    """One card with one form, posted by the browser itself."""
    return rx.el.main(
        rx.el.div(
            rx.el.div("Tensorant", class_name="brand"),
            rx.el.h1(title),
            rx.el.p(sentence, class_name="meta"),
            said(),
            native_form(
                *fields,
                rx.button(submit, type="submit", size="3", width="100%"),
                action=action,
                class_name="stack",
            ),
            class_name="door card",
        ),
        class_name="doors",
    )


def door_field(
    label: str,
    name: str,
    *,
    kind: Literal["text", "email", "password"] = "text",
    auto_complete: AutoComplete,
    hint: str = "",
    required: bool = True,
) -> rx.Component:
    """A labelled input that the browser's password manager knows."""
    hint_id = f"{name}-hint"
    return rx.el.div(
        rx.el.label(label, html_for=name),
        rx.el.input(
            id=name,
            name=name,
            type=kind,
            auto_complete=auto_complete,
            required=required,
            min_length=8 if auto_complete == "new-password" else None,
            class_name="input",
            custom_attrs={"aria-describedby": hint_id} if hint else {},
        ),
        *([rx.el.p(hint, id=hint_id, class_name="meta")] if hint else []),
        class_name="field",
    )
