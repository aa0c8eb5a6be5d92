"""One's own account: where one is signed in, signing out, and the password."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import reflex as rx

from tensorant_app.components.doors import door_field, said
from tensorant_app.components.links import native_form
from tensorant_app.routes import ACCOUNT, PASSWORD_POST, SIGN_OUT_EVERYWHERE_POST, SIGN_OUT_POST
from tensorant_app.services import sessions
from tensorant_app.services.sessions import SessionView
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class SessionRow:
    id: str
    device: str
    address: str
    last_seen: str
    is_this: bool


class AccountState(AppState):
    rows: list[SessionRow] = []

    @rx.event
    async def load(self) -> None:
        await self._load()

    async def _load(self) -> None:
        look = partial(sessions.list_sessions, cookies=self.router.headers.cookie)
        self.rows = [_row(view) for view in await self._see(look) or []]

    @rx.event
    async def end(self, session_id: str):
        await self._do(lambda session, caller: sessions.end_session(session, caller, id_of(session_id)))
        if not self.error:
            await self._load()


def _row(view: SessionView) -> SessionRow:
    return SessionRow(
        str(view.id), _device(view.user_agent), view.address, f"{view.last_seen_at:%Y-%m-%d %H:%M} UTC", view.is_this
    )


def _device(user_agent: str) -> str:
    browsers = ("Edg", "OPR", "Firefox", "Chrome", "Safari")
    names = {"Edg": "Edge", "OPR": "Opera"}
    systems = ("Windows", "Android", "iPhone", "iPad", "Mac OS X", "Linux")
    browser = next((name for name in browsers if name in user_agent), "A program")
    system = next((name for name in systems if name in user_agent), "")
    return f"{names.get(browser, browser)} on {system}" if system else browser


def session_row(row: rx.Var[SessionRow]) -> rx.Component:
    return rx.table.row(
        rx.table.cell(row.device),
        rx.table.cell(row.address),
        rx.table.cell(row.last_seen),
        rx.table.cell(
            rx.cond(
                row.is_this,
                rx.text("This browser"),
                rx.button("End", variant="soft", size="1", on_click=AccountState.end(row.id)),
            )
        ),
    )


@rx.page(route=ACCOUNT, title="Account · Tensorant", on_load=[AppState.enter, AccountState.load])
def account_page() -> rx.Component:
    return rx.el.main(
        rx.el.h1("Account"),
        rx.el.p(rx.el.span(AppState.me.name, id="me-name"), " · ", AppState.me.email, " · ", AppState.me.role),
        rx.el.p(AppState.error, role="alert"),
        said(),
        rx.el.h2("Signed in"),
        rx.table.root(
            rx.table.header(
                rx.table.row(*(rx.table.column_header_cell(name) for name in ("Browser", "Address", "Last used", "")))
            ),
            rx.table.body(rx.foreach(AccountState.rows, session_row)),
        ),
        native_form(rx.button("Sign out", type="submit", variant="soft"), action=SIGN_OUT_POST),
        native_form(
            rx.button("Sign out everywhere", type="submit", variant="soft", color_scheme="red"),
            action=SIGN_OUT_EVERYWHERE_POST,
        ),
        rx.el.h2("Password"),
        native_form(
            door_field("Password now", "old", kind="password", auto_complete="current-password"),
            door_field("New password", "password", kind="password", auto_complete="new-password"),
            rx.button("Change the password", type="submit"),
            action=PASSWORD_POST,
        ),
        custom_attrs={"data-hydrated": rx.cond(rx.State.is_hydrated, "1", "0")},
    )
