"""The banners that say why nothing moves: nobody answers, or the session is over."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.links import out_link
from tensorant_app.routes import SIGN_IN


def connection_banners() -> rx.Component:
    """Shown by `html[data-connection]`, which the socket's code sets; see `tensorant_app.config`."""
    return rx.el.div(
        rx.el.style(
            ".connection{display:none;position:fixed;inset:auto 0 0 0;z-index:100;padding:10px 16px;text-align:center;"
            "background:var(--amber-3);color:var(--amber-12);border-top:1px solid var(--amber-6)}"
            "html[data-connection=lost] .connection.lost,html[data-connection=ended] .connection.ended{display:block}"
        ),
        rx.el.div(
            "The console does not answer. What you see is its last word; it goes on by itself when it is back.",
            class_name="connection lost",
            role="status",
        ),
        rx.el.div(
            "Your session has ended. ",
            out_link("Sign in in a new tab", SIGN_IN),
            " and come back: what you typed here is still there.",
            class_name="connection ended",
            role="status",
        ),
    )
