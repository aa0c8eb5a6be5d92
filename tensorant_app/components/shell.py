"""The frame of every page inside: rail, top bar, banner, main, and the dialogs of the keyboard."""

from __future__ import annotations

from collections.abc import Sequence

import reflex as rx

from tensorant_app.components.links import plain_link
from tensorant_app.components.navigation import Group, drawer, rail
from tensorant_app.components.shortcuts import palette, shortcut_sheet
from tensorant_app.components.topbar import Crumb, Viewer, topbar
from tensorant_app.components.values import Node, Text


def page_frame(
    *children: Node,
    here: str,
    groups: Sequence[Group],
    crumbs: Sequence[Crumb],
    viewer: Viewer | rx.Var[Viewer],
    switcher: rx.Component | None = None,
    phone_switcher: rx.Component | None = None,
    running: rx.Component | None = None,
    banner: rx.Component | None = None,
    said: Text = "",
    full_width: bool = False,
    is_alive: rx.Var[bool] | None = None,
) -> rx.Component:
    """`here`: the `Place.name` to mark in the rail. `said`: what changed, read aloud politely.

    `is_alive` (State.is_hydrated) becomes `data-hydrated` on main, for tests.
    """
    go_to = tuple((place.key, place.label) for group in groups for place in group.places if place.key)
    attrs = {} if is_alive is None else {"data-hydrated": rx.cond(is_alive, "1", "0")}
    return rx.el.div(
        plain_link("Skip to content", href="#main", class_name="skip"),
        rx.el.div(
            rail(groups, here, switcher),
            rx.el.div(
                topbar(crumbs, viewer, running),
                banner if banner is not None else rx.fragment(),
                rx.el.main(
                    *children,
                    id="main",
                    tab_index=-1,
                    class_name="page full" if full_width else "page",
                    custom_attrs=attrs,
                ),
                style={"min_width": "0"},
            ),
            class_name="app",
        ),
        drawer(groups, here, phone_switcher),
        palette(),
        shortcut_sheet(go_to),
        rx.el.div(said, id="heard", class_name="sr", role="status", custom_attrs={"aria-live": "polite"}),
        rx.el.div(id="said", class_name="sr", custom_attrs={"aria-live": "polite"}),
    )
