"""Few answers to choose from: selects, switches, segments and lists of radio rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.forms import box, described
from tensorant_app.components.icons import icon
from tensorant_app.components.values import Flag, Handler, Node, Text, each, given, pick


@dataclass(frozen=True, slots=True)
class Option:
    """One answer to a question of few answers."""

    value: str
    label: str
    count: str = ""
    disabled: bool = False


def select(
    name: str,
    options: Sequence[Option] | rx.Var[list[Option]],
    *,
    value: Text | None = None,
    on_change: Handler = None,
    disabled: Flag = False,
    error: Text = "",
    placeholder: Text = "",
    label: Text = "",
) -> rx.Component:
    """The browser's own select: right on a phone, and free. `label` names one that has no label beside it."""
    props = {"value": value, "on_change": on_change}
    first = [rx.el.option(placeholder, value="")] if given(placeholder) else []
    inner = rx.el.select(
        *first,
        *each(options, lambda option: rx.el.option(option.label, value=option.value, disabled=option.disabled)),
        id=name,
        name=name,
        disabled=disabled,
        custom_attrs={"aria-label": label} if given(label) else described(name, error),
        **{key: value for key, value in props.items() if value is not None},
    )
    words = box(error)
    return rx.el.div(
        inner, icon("chevron_down"), class_name=f"{words} sel" if isinstance(words, str) else words + " sel"
    )


def switch(name: str, label: Node, *, checked: Flag, on_change: Handler = None, disabled: Flag = False) -> rx.Component:
    events = {"on_change": on_change} if on_change is not None else {}
    return rx.el.label(
        rx.switch(id=name, checked=checked, disabled=disabled, size="1", class_name="sw", **events),
        rx.el.span(label),
        class_name="tog",
    )


def segmented(
    options: Sequence[Option], value: Text, on_change: Handler, *, label: Text, small: bool = False
) -> rx.Component:
    """Few answers side by side; one is always chosen. `on_change` gets the value."""
    return rx.el.div(
        *[_segment(option, value, on_change) for option in options],
        role="radiogroup",
        class_name="seg sm" if small else "seg",
        custom_attrs={"aria-label": label},
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a list to choose from: what it is, and up to three right-hand columns."""

    value: str
    title: str
    note: str = ""
    columns: tuple[str, ...] = ()
    disabled: bool = False


def choice_list(
    name: str,
    choices: Sequence[Choice] | rx.Var[list[Choice]],
    value: Text,
    on_change: Handler,
    *,
    label: Text,
    columns: int = 1,
) -> rx.Component:
    """Radio rows: GPUs, base models. `columns`: 1, or 3 as in Configure (memory, price, estimate)."""
    events = {"on_change": on_change} if on_change is not None else {}

    def line(choice: Choice) -> rx.Component:
        ends = [rx.el.span(choice.columns[n]) for n in range(columns)]
        return rx.el.label(
            rx.el.input(
                type="radio",
                name=name,
                value=choice.value,
                checked=choice.value == value,
                disabled=choice.disabled,
                **events,
            ),
            rx.el.span(rx.el.span(choice.title, class_name="strong"), " ", rx.el.span(choice.note, class_name="meta")),
            *ends,
            class_name="o c5" if columns == 3 else "o",
        )

    return rx.el.div(*each(choices, line), class_name="pick", role="radiogroup", custom_attrs={"aria-label": label})


def _segment(option: Option, value: Text, on_change: Handler) -> rx.Component:
    is_it = value == option.value
    events = {"on_click": on_change(option.value)} if on_change is not None else {}
    return rx.el.button(
        option.label,
        *([rx.el.span(option.count, class_name="c")] if given(option.count) else []),
        type="button",
        role="radio",
        disabled=option.disabled,
        custom_attrs={"aria-checked": pick(is_it, "true", "false")},
        **events,
    )
