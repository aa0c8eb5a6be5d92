"""The bar over every page: where one is, the palette, what is being paid for, appearance, and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import icon_button
from tensorant_app.components.icons import icon
from tensorant_app.components.links import bare_link, native_form
from tensorant_app.components.values import Number, Text, given, if_text


@dataclass(frozen=True, slots=True)
class Crumb:
    """A step of the path above the page; the last one has no address."""

    label: Text
    href: Text = ""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who is signed in, as the bar shows it."""

    name: str = ""
    initials: str = ""
    email: str = ""
    organization: str = ""
    role: str = ""


def topbar(crumbs: Sequence[Crumb], viewer: Viewer | rx.Var[Viewer], running: rx.Component | None) -> rx.Component:
    search = rx.el.button(
        icon("search"),
        "Search",
        rx.el.span("⌘K", class_name="kbd", aria_hidden=True),
        type="button",
        class_name="find",
        custom_attrs={"data-opens": "palette", "aria-keyshortcuts": "Meta+K Control+K"},
    )
    theme = icon_button("Light or dark", "sun_moon", on_click=rx.toggle_color_mode, class_name="hide")
    sheet = icon_button("Keyboard shortcuts", "keyboard", class_name="hide", attributes={"data-opens": "shortcuts"})
    return rx.el.header(
        icon_button("Open menu", "menu", class_name="menu-b", attributes={"data-opens": "drawer"}),
        _path(crumbs),
        search,
        running if running is not None else rx.fragment(),
        sheet,
        theme,
        _user_menu(viewer),
        class_name="bar",
    )


def running_cost(words: Text, rate: Text, spent: Text = "", budget: Text = "", *, href: Text = "") -> rx.Component:
    """ "2 GPUs | $1.35/h | $38.62 of $200"; nothing while `words` is empty. `href` leads to what is running."""
    month: rx.Component = rx.fragment()
    if given(spent):
        of = (
            rx.el.span(" of ", budget, class_name="unit")
            if given(budget)
            else rx.el.span(" this month", class_name="unit")
        )
        month = rx.fragment(rx.el.span(class_name="v hide"), rx.el.span(spent, of, class_name="hide"))
    inner = [
        rx.el.span(class_name="pulse", aria_hidden=True),
        rx.el.span(words),
        rx.el.span(class_name="v"),
        rx.el.span(rate, rx.el.span("/h", class_name="unit")),
        month,
    ]
    pill = bare_link(*inner, href=href, class_name="pill") if given(href) else rx.el.div(*inner, class_name="pill")
    return if_text(words, pill)


def machines_running(count: Number) -> str:
    """For plain numbers only: "1 GPU", "2 GPUs"."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _path(crumbs: Sequence[Crumb]) -> rx.Component:
    steps = []
    for n, crumb in enumerate(crumbs):
        sep = [rx.el.span("/", class_name="sep", aria_hidden=True)] if n else []
        last = n == len(crumbs) - 1
        word = (
            rx.el.b(crumb.label, custom_attrs={"aria-current": "page"})
            if last
            else bare_link(crumb.label, href=crumb.href)
        )
        steps.append(rx.el.li(*sep, word))
    return rx.el.nav(rx.el.ol(*steps), class_name="crumbs", aria_label="Breadcrumb")


def _user_menu(viewer: Viewer | rx.Var[Viewer]) -> rx.Component:
    """The browser's own popover, so that signing out works even while the page has not come alive."""
    owner = rx.el.button(
        rx.el.span(viewer.initials, class_name="av"),
        rx.el.span(" ", viewer.name, ", account menu", class_name="sr"),
        type="button",
        class_name="ib",
        title=viewer.name,
        custom_attrs={"popovertarget": "user-menu"},
    )
    menu = rx.el.div(
        rx.el.div(
            rx.el.div(viewer.name, class_name="strong"),
            rx.el.div(viewer.email, class_name="meta"),
            rx.el.div(f"{viewer.role} in {viewer.organization}", class_name="meta"),
            class_name="who",
        ),
        rx.el.hr(class_name="rule"),
        rx.el.button(
            icon("sun_moon"),
            "Light or dark",
            type="button",
            class_name="mi on-phone-flex",
            on_click=rx.toggle_color_mode,
        ),
        rx.el.button(
            icon("keyboard"),
            "Keyboard shortcuts",
            type="button",
            class_name="mi",
            custom_attrs={"data-opens": "shortcuts"},
        ),
        bare_link(icon("user_round"), "Account", href=routes.ACCOUNT, class_name="mi"),
        _out(routes.SIGN_OUT_POST, "log_out", "Sign out"),
        _out(routes.SIGN_OUT_EVERYWHERE_POST, "monitor_x", "Sign out everywhere"),
        id="user-menu",
        class_name="pop user",
        custom_attrs={"popover": "auto"},
    )
    return rx.fragment(owner, menu)


def _out(action: str, drawing: str, words: str) -> rx.Component:
    return native_form(rx.el.button(icon(drawing), words, type="submit", class_name="mi"), action=action)
