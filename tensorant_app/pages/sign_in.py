"""Signing in."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.doors import door, door_field
from tensorant_app.routes import SIGN_IN, SIGN_IN_POST


@rx.page(route=SIGN_IN, title="Sign in · Tensorant")
def sign_in_page() -> rx.Component:
    return door(
        "Sign in",
        "With the e-mail address and password of your account.",
        rx.el.input(type="hidden", name="next", default_value="/"),
        door_field("E-mail address", "email", kind="email", auto_complete="username"),
        door_field("Password", "password", kind="password", auto_complete="current-password"),
        rx.el.p(
            "Forgotten? Whoever looks after this installation makes you a link with ",
            rx.el.code("tensorant admin reset-password"),
            ".",
            class_name="meta",
        ),
        action=SIGN_IN_POST,
        submit="Sign in",
    )
