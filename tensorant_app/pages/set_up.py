"""The first start: the organization and its owner. And a new password, for whoever holds a link for it."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.doors import door, door_field
from tensorant_app.routes import NEW_PASSWORD, NEW_PASSWORD_POST, SET_UP, SET_UP_POST

_HINT = "At least 8 characters; 15 or more are much safer. Pasting is fine."


@rx.page(route=SET_UP, title="Set up · Tensorant")
def set_up_page() -> rx.Component:
    return door(
        "Set up Tensorant",
        "You become the owner of the first organization on this installation.",
        door_field("Organization", "organization", auto_complete="organization"),
        door_field("Your name", "name", auto_complete="name", required=False),
        door_field("E-mail address", "email", kind="email", auto_complete="username", hint="You sign in with it."),
        door_field("Password", "password", kind="password", auto_complete="new-password", hint=_HINT),
        action=SET_UP_POST,
        submit="Set up",
    )


@rx.page(route=NEW_PASSWORD, title="New password · Tensorant")
def new_password_page() -> rx.Component:
    return door(
        "Choose a password",
        "The link works once. Every session that is open now ends.",
        door_field("New password", "password", kind="password", auto_complete="new-password", hint=_HINT),
        action=NEW_PASSWORD_POST,
        submit="Set the password",
    )
