"""The rail: project switcher, places in groups, and the same as a drawer on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.icons import brand_mark, icon
from tensorant_app.components.links import bare_link
from tensorant_app.components.values import Flag, Text, each, given, if_, if_text, pick


@dataclass(frozen=True, slots=True)
class Place:
    """One link of the rail; `key` is the letter after `g`."""

    name: str
    label: str
    icon: str
    href: Text
    key: str = ""
    count: Text = ""
    is_shown: Flag = True


@dataclass(frozen=True, slots=True)
class Group:
    """Places under a small heading; the first group has none."""

    places: tuple[Place, ...]
    title: Text = ""
    is_shown: Flag = True


@dataclass(frozen=True, slots=True)
class ProjectLink:
    """A line of the project switcher."""

    id: str
    name: str
    base: str


def project_groups(project_id: Text, organization: Text, *, runs: Text = "") -> tuple[Group, ...]:
    """The rail inside a project: only places that are built, and none of a project whose id is empty."""
    is_open: Flag = project_id != "" if isinstance(project_id, rx.Var) else bool(project_id)
    return (
        Group(
            (
                Place("overview", "Overview", "layout_dashboard", routes.overview(project_id), "o"),
                Place("data", "Data", "database", routes.data(project_id), "d"),
            ),
            is_shown=is_open,
        ),
        Group((Place("runs", "Runs", "sliders_horizontal", routes.runs(project_id), "r", runs),), "Tune", is_open),
        Group(
            (
                Place("baseline", "Baseline", "ruler", routes.baseline(project_id), "b"),
                Place("evaluations", "Evaluate", "scale", routes.evaluations(project_id), "e"),
            ),
            "Prove",
            is_open,
        ),
        Group(
            (
                Place("projects", "Projects", "folder", routes.PROJECTS, "p"),
                Place("connections", "Connections", "plug", routes.CONNECTIONS, "c"),
                Place("settings", "Settings", "settings", routes.project_settings(project_id), "s", "", is_open),
            ),
            organization,
        ),
    )


def organization_groups(organization: Text) -> tuple[Group, ...]:
    """The rail outside any project."""
    return (
        Group(
            (
                Place("projects", "Projects", "folder", routes.PROJECTS, "p"),
                Place("connections", "Connections", "plug", routes.CONNECTIONS, "c"),
            ),
            organization,
        ),
    )


def rail(groups: Sequence[Group], here: str, switcher: rx.Component | None) -> rx.Component:
    return rx.el.div(_inner(groups, here, switcher, "Main"), class_name="rail")


def drawer(groups: Sequence[Group], here: str, switcher: rx.Component | None) -> rx.Component:
    """The rail of a phone: a modal dialog of the browser, closed by Esc, a tap beside it, or a link in it."""
    return rx.el.dialog(
        _inner(groups, here, switcher, "Menu"), id="drawer", class_name="drawer", custom_attrs={"aria-label": "Menu"}
    )


def project_switcher(
    name: Text,
    base: Text,
    projects: Sequence[ProjectLink] | rx.Var[list[ProjectLink]],
    current_id: Text,
    *,
    menu: str = "projects-menu",
) -> rx.Component:
    """The project one is in and, when pressed, the others. Give each place on a page its own `menu` id."""

    def line(project: ProjectLink) -> rx.Component:
        words = rx.el.span(
            rx.el.span(project.name, class_name="block"), rx.el.span(project.base, class_name="meta block")
        )
        mark = {
            "aria-current": pick(_same(project.id, current_id), "true", "false"),
            "data-command": rx.Var.create("Project ") + project.name
            if isinstance(project.name, rx.Var)
            else f"Project {project.name}",
        }
        return bare_link(words, href=routes.overview(project.id), class_name="mi", custom_attrs=mark)

    return rx.fragment(
        rx.el.button(
            rx.el.span("Project: ", class_name="sr"),
            rx.el.span(
                rx.el.b(if_text(name, name, "Choose a project"), class_name="trunc"),
                rx.el.span(base, class_name="meta trunc"),
                class_name="grow",
            ),
            icon("chevrons_up_down", class_name="gray"),
            type="button",
            class_name="switch",
            custom_attrs={"popovertarget": menu},
        ),
        rx.el.div(
            *each(projects, line),
            rx.el.hr(class_name="rule"),
            bare_link(icon("folder"), "All projects", href=routes.PROJECTS, class_name="mi"),
            bare_link(icon("plus"), "New project", href=routes.NEW_PROJECT, class_name="mi"),
            id=menu,
            class_name="pop projects",
            custom_attrs={"popover": "auto"},
        ),
    )


def _inner(groups: Sequence[Group], here: str, switcher: rx.Component | None, label: str) -> rx.Component:
    brand = bare_link(brand_mark(), "Tensorant", href=routes.HOME, class_name="brand", title="Home")
    return rx.el.nav(
        brand,
        switcher if switcher is not None else rx.fragment(),
        *[part for group in groups for part in _group(group, here)],
        class_name="rail-in",
        aria_label=label,
    )


def _group(group: Group, here: str) -> list[rx.Component]:
    heading = [rx.el.div(group.title, class_name="nav-h")] if given(group.title) else []
    return [if_(group.is_shown, rx.fragment(*heading, *[_place(place, here) for place in group.places]))]


def _place(place: Place, here: str) -> rx.Component:
    attrs = {"data-go": place.key} if place.key else {}
    if place.name == here:
        attrs["aria-current"] = "page"
    attrs["data-command"] = place.label
    count = rx.el.span(place.count, class_name="n") if given(place.count) else rx.fragment()
    link = bare_link(
        icon(place.icon), place.label, count, href=place.href, class_name="nav", title=place.label, custom_attrs=attrs
    )
    return if_(place.is_shown, link)


def _same(one: Text, other: Text) -> Flag:
    return one == other
