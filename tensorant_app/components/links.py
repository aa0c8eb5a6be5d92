"""Links inside the console (no page load) and out of it, and the native form that signs in and out."""

from __future__ import annotations

from typing import Any

import reflex as rx
from reflex_components_core.el.elements.base import BaseHTML
from reflex_components_core.react_router.dom import ReactRouterLink

from tensorant_app.components.values import Node, Text


def link(label: Node, href: Text, *, class_name: str = "link", **props: Any) -> rx.Component:
    """To another page of the console."""
    return ReactRouterLink.create(label, to=href, class_name=class_name, **props)


def bare_link(*children: Node, href: Text, class_name: str = "", **props: Any) -> rx.Component:
    """To another page, without a look of its own: rail, rows, cards."""
    return ReactRouterLink.create(*children, to=href, class_name=class_name, **props)


class PlainAnchor(BaseHTML):
    """An `a` that the browser itself follows; `rx.el.a` hands every address to the router."""

    tag = "a"
    href: rx.Var[str]
    download: rx.Var[bool]
    target: rx.Var[str]
    rel: rx.Var[str]


def plain_link(*children: Node, href: Text, **props: Any) -> rx.Component:
    """To a file of the API, or to a place on this page."""
    return PlainAnchor.create(*children, href=href, **props)


def out_link(label: Node, href: Text, *, class_name: str = "link") -> rx.Component:
    """To another site, in a new tab."""
    return plain_link(label, href=href, target="_blank", rel="noreferrer", class_name=class_name)


class NativeForm(BaseHTML):
    """A form that the browser itself posts; `rx.el.form` always prevents that."""

    tag = "form"
    action: rx.Var[str]
    method: rx.Var[str]


def native_form(*children: Node, action: Text, **props: Any) -> rx.Component:
    """POSTs its fields to `action` and follows the answer; works before the page has come alive."""
    return NativeForm.create(*children, action=action, method="post", **props)
