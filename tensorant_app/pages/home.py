"""Where one lands after signing in."""

from __future__ import annotations

import reflex as rx

from tensorant_app.routes import HOME
from tensorant_app.state import AppState


@rx.page(route=HOME, title="Tensorant", on_load=AppState.enter)
def home_page() -> rx.Component:
    return rx.el.main(
        rx.el.h1("Tensorant"),
        rx.el.p("Signed in as ", rx.el.strong(AppState.me.name, id="me-name"), " of ", AppState.me.organization, "."),
        rx.el.a("Account", href="/account"),
        custom_attrs={"data-hydrated": rx.cond(rx.State.is_hydrated, "1", "0")},
    )
