"""Buttons: one solid per view, soft to hold, outline beside it, ghost in toolbars, red to end something."""

from __future__ import annotations

from typing import Any, Literal

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.links import bare_link, plain_link
from tensorant_app.components.values import Flag, Handler, Node, Text, given, if_

Kind = Literal["solid", "soft", "outline", "ghost", "red", "amber"]
Size = Literal["sm", "md", "lg"]

_RADIX: dict[str, dict[str, Any]] = {
    "solid": {"variant": "solid"},
    "soft": {"variant": "soft", "high_contrast": True},
    "outline": {"variant": "outline", "color_scheme": "gray", "high_contrast": True},
    "ghost": {"variant": "ghost", "color_scheme": "gray", "high_contrast": True},
    "red": {"variant": "soft", "color_scheme": "red", "high_contrast": True},
    "amber": {"variant": "soft", "color_scheme": "amber", "high_contrast": True},
}


def button(
    label: Node,
    *,
    kind: Kind = "outline",
    icon_name: str = "",
    on_click: Handler = None,
    href: Text = "",
    disabled: Flag = False,
    busy: Flag = False,
    size: Size = "md",
    wide: bool = False,
    submits: bool = False,
    key: str = "",
    command: str = "",
    attributes: dict[str, Any] | None = None,
) -> rx.Component:
    """A button, or with `href` a link that looks like one. `key` is its single-letter shortcut, never of a paid act;
    `command` is its name in the palette."""
    attrs: dict[str, Any] = dict(attributes or {})
    if key:
        attrs |= {"data-key": key, "aria-keyshortcuts": key}
    if command:
        attrs["data-command"] = command
    inner: list[Node] = [icon(icon_name)] if icon_name else []
    inner.append(label)
    if key:
        inner.append(rx.el.span(key.upper(), class_name="kbd wide-only", aria_hidden=True))
    words = " ".join(filter(None, ["b", kind, size if size != "md" else "", "w" if wide else ""]))
    if given(href):
        target = bare_link(*inner, href=href, custom_attrs=attrs)
        return rx.button(target, as_child=True, class_name=words, **_RADIX[kind])
    events = {"on_click": on_click} if on_click is not None else {}
    return rx.button(
        *inner,
        class_name=words,
        disabled=disabled,
        loading=busy,
        type="submit" if submits else "button",
        custom_attrs=attrs,
        **events,
        **_RADIX[kind],
    )


def download_button(label: Node, href: Text, *, kind: Kind = "outline", size: Size = "md") -> rx.Component:
    """Fetches a file from the API; the browser keeps the page."""
    words = " ".join(filter(None, ["b", kind, size if size != "md" else ""]))
    target = plain_link(icon("download"), label, href=href, download=True)
    return rx.button(target, as_child=True, class_name=words, **_RADIX[kind])


def icon_button(
    label: Text,
    icon_name: str,
    *,
    on_click: Handler = None,
    small: bool = False,
    disabled: Flag = False,
    class_name: str = "",
    attributes: dict[str, Any] | None = None,
) -> rx.Component:
    """A square with an icon; the label is read aloud and shown on hover."""
    events = {"on_click": on_click} if on_click is not None else {}
    return rx.el.button(
        icon(icon_name),
        type="button",
        class_name=f"ib {'sm' if small else ''} {class_name}".strip(),
        title=label,
        disabled=disabled,
        custom_attrs={"aria-label": label, **(attributes or {})},
        **events,
    )


def copy_button(text: Text = "", *, label: str = "Copy", from_selector: str = "", words: bool = False) -> rx.Component:
    """Copies a text, or what an element shows (`from_selector`); a tick answers for a moment."""
    attrs: dict[str, Any] = {"data-copy-from": from_selector} if from_selector else {"data-copy": text}
    faces = [
        rx.el.span(icon("copy", size=13), class_name="todo"),
        rx.el.span(icon("check", size=13), class_name="done"),
    ]
    if words:
        return rx.button(*faces, label, class_name="b ghost sm", type="button", custom_attrs=attrs, **_RADIX["ghost"])
    return rx.el.button(
        *faces, type="button", class_name="ib sm", title=label, custom_attrs={"aria-label": label, **attrs}
    )


def action_with_reason(action: rx.Component, reason: Text) -> rx.Component:
    """A disabled button and, beside it, the sentence that says why."""
    return rx.el.div(
        action, if_(reason if isinstance(reason, rx.Var) else bool(reason), _meta(reason)), class_name="row wrap"
    )


def _meta(text: Text) -> rx.Component:
    return rx.el.span(text, class_name="meta")
