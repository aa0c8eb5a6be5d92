"""Fields with their range, default and reason."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.values import Flag, Handler, Node, Text, given, if_, if_text, pick


def field(
    name: str,
    label: Text,
    control: rx.Component,
    *,
    hint: Text = "",
    error: Text = "",
    why: Text = "",
    is_default: Flag | None = None,
    on_reset: Handler = None,
    locked: Flag = False,
) -> rx.Component:
    """Label, control and the line under it. `control` must have the id `name`.

    `hint` is the range ("1 – 100"), an `error` replaces it. `is_default` shows *Default*, or *Reset* when changed.
    """
    line = rx.el.p(
        icon("circle_alert", size=13), rx.el.span(error), class_name="hint e", id=f"{name}-hint", role="alert"
    )
    calm = rx.el.p(hint, class_name="hint", id=f"{name}-hint")
    return rx.el.div(
        rx.el.div(
            rx.el.label(label, html_for=name),
            why_tip(name, label, why) if given(why) else rx.fragment(),
            _default(label, is_default, on_reset),
            class_name="lab",
        ),
        control,
        if_text(error, line, calm),
        class_name=pick(locked, "f locked", "f"),
    )


def _default(label: Text, is_default: Flag | None, on_reset: Handler) -> rx.Component:
    if is_default is None:
        return rx.fragment()
    events = {"on_click": on_reset} if on_reset is not None else {}
    reset = rx.el.button(
        icon("rotate_ccw", size=12),
        "Reset",
        rx.el.span(" ", label, class_name="sr"),
        type="button",
        class_name="def ch",
        **events,
    )
    return if_(is_default, rx.el.span("Default", class_name="def"), reset)


def why_tip(name: str, label: Text, text: Text) -> rx.Component:
    """A small ⓘ: opens on hover, by keyboard and by touch; the browser's own popover."""
    return rx.fragment(
        rx.el.button(
            icon("info", size=13),
            type="button",
            class_name="why",
            custom_attrs={
                "popovertarget": f"why-{name}",
                "popovertargetaction": "show",
                "aria-label": f"Why: {label}",
            },
        ),
        rx.el.div(text, id=f"why-{name}", class_name="tip", role="tooltip", custom_attrs={"popover": "auto"}),
    )


def text_input(
    name: str,
    *,
    value: Text | None = None,
    default_value: Text | None = None,
    on_change: Handler = None,
    on_blur: Handler = None,
    end: Text = "",
    start_icon: str = "",
    placeholder: Text = "",
    kind: str = "text",
    disabled: Flag = False,
    error: Text = "",
    input_mode: str = "",
    autocomplete: str = "off",
    required: bool = False,
    search: bool = False,
    label: Text = "",
) -> rx.Component:
    """`end` is the unit in gray. Numbers are texts with `input_mode="decimal"`, so that what was typed is kept.

    `search` makes it the field that `/` reaches; `label` names a field that has none beside it.
    """
    props: dict[str, Any] = {"value": value, "default_value": default_value, "on_change": on_change, "on_blur": on_blur}
    props |= {"placeholder": placeholder or None, "input_mode": input_mode or None, "required": required or None}
    attrs = (
        described(name, error)
        | ({"data-search": ""} if search else {})
        | ({"aria-label": label} if given(label) else {})
    )
    inner = rx.el.input(
        id=name,
        name=name,
        type=kind,
        disabled=disabled,
        auto_complete=autocomplete,
        spell_check=False,
        custom_attrs=attrs,
        **{key: given for key, given in props.items() if given is not None},
    )
    return rx.el.div(
        *([icon(start_icon)] if start_icon else []),
        inner,
        *([rx.el.span(end, class_name="end")] if given(end) else []),
        *([rx.el.kbd("/", class_name="kbd wide-only", aria_hidden=True)] if search else []),
        class_name=box(error),
    )


def search_input(
    name: str,
    placeholder: str,
    *,
    value: Text | None = None,
    default_value: Text | None = None,
    on_change: Handler = None,
) -> rx.Component:
    """The list's own search; `/` goes there. Debounce it in the page's state."""
    return text_input(
        name,
        value=value,
        default_value=default_value,
        on_change=on_change,
        start_icon="search",
        placeholder=placeholder,
        label=placeholder,
        search=True,
    )


def text_area(
    name: str,
    *,
    value: Text | None = None,
    default_value: Text | None = None,
    on_change: Handler = None,
    rows: int = 4,
    error: Text = "",
    placeholder: Text = "",
    disabled: Flag = False,
) -> rx.Component:
    """Uncontrolled with `default_value`, as a form's own boxes are."""
    props = {
        "value": value,
        "default_value": default_value,
        "on_change": on_change,
        "placeholder": placeholder or None,
        "disabled": disabled,
    }
    area = rx.el.textarea(
        id=name,
        name=name,
        rows=str(rows),
        custom_attrs=described(name, error),
        **{key: given for key, given in props.items() if given is not None},
    )
    return rx.el.div(area, class_name="inp area")


def section(title: Node, *children: Node, note: Text = "") -> rx.Component:
    """A part of a long form under its heading."""
    return rx.el.section(
        rx.el.h2(title, rx.el.span(note, class_name="meta"), class_name="h2"), *children, class_name="sec"
    )


def field_grid(*fields: rx.Component, columns: int = 3) -> rx.Component:
    return rx.el.div(*fields, class_name=f"fg c{columns}")


def described(name: str, error: Text) -> dict[str, Any]:
    """Ties a control to the line under it."""
    wrong = (error != "") if isinstance(error, rx.Var) else bool(error)
    return {"aria-describedby": f"{name}-hint", "aria-invalid": pick(wrong, "true", "false")}


def box(error: Text) -> Text:
    return pick((error != "") if isinstance(error, rx.Var) else bool(error), "inp err", "inp")
