"""One's own account: where one is signed in, signing out, and the password."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import reflex as rx

from tensorant_app.components.badges import label
from tensorant_app.components.buttons import Kind, button
from tensorant_app.components.cards import card, columns, page_head
from tensorant_app.components.doors import door_field, said
from tensorant_app.components.links import native_form
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import when
from tensorant_app.components.topbar import Crumb
from tensorant_app.pages.frame import ENTER, framed
from tensorant_app.pages.words import ago, exact
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
    last_seen_exact: str
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
        str(view.id),
        _device(view.user_agent),
        view.address,
        ago(view.last_seen_at),
        exact(view.last_seen_at),
        view.is_this,
    )


def _device(user_agent: str) -> str:
    browsers = ("Edg", "OPR", "Firefox", "Chrome", "Safari")
    names = {"Edg": "Edge", "OPR": "Opera"}
    systems = ("Windows", "Android", "iPhone", "iPad", "Mac OS X", "Linux")
    browser = next((name for name in browsers if name in user_agent), "A program")
    system = next((name for name in systems if name in user_agent), "")
    return f"{names.get(browser, browser)} on {system}" if system else browser


_COLUMNS = [
    Column("Browser", phone="lead"),
    Column("Address"),
    Column("Last used", phone="aside"),
    Column("Actions", hidden_label=True, number=True, phone="aside"),
]


def _draw(row: rx.Var[SessionRow]) -> rx.Component:
    end = rx.el.div(button("End", size="sm", on_click=AccountState.end(row.id)), class_name="above")
    return table_row(
        cell(rx.el.span(row.device, class_name="strong"), phone="lead"),
        cell(row.address, gray=True),
        cell(when(row.last_seen, row.last_seen_exact), gray=True, phone="aside"),
        cell(rx.cond(row.is_this, rx.fragment(label("This browser")), rx.fragment(end)), number=True, phone="aside"),
    )


@rx.page(route=ACCOUNT, title="Account · Tensorant", on_load=[*ENTER, AccountState.load])
def account_page() -> rx.Component:
    me = AppState.me
    return framed(
        "account",
        page_head("Account", sub=[rx.el.span(me.name, id="me-name"), me.email, me.role]),
        rx.el.div(said(), class_name="above-page"),
        columns([_sessions()], [_password()], wide_side=True),
        crumbs=[Crumb("Account")],
        project=False,
    )


def _sessions() -> rx.Component:
    table = data_table(_COLUMNS, AccountState.rows, _draw, caption="Where you are signed in", tall=False, in_card=False)
    ways_out = rx.el.div(
        native_form(_submit("Sign out", "outline"), action=SIGN_OUT_POST),
        native_form(_submit("Sign out everywhere", "red"), action=SIGN_OUT_EVERYWHERE_POST),
        class_name="tablefoot",
    )
    return card(table, ways_out, title="Signed in", padded=False)


def _password() -> rx.Component:
    form = native_form(
        door_field("Password now", "old", kind="password", auto_complete="current-password"),
        door_field("New password", "password", kind="password", auto_complete="new-password"),
        rx.el.p("Every other browser is signed out by it.", class_name="meta"),
        _submit("Change the password", "solid"),
        action=PASSWORD_POST,
        class_name="stack",
    )
    return card(form, title="Password")


def _submit(words: str, kind: Kind) -> rx.Component:
    return rx.el.div(button(words, kind=kind, submits=True))
