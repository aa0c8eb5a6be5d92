"""The runs of a project: searched, filtered, sorted and paged by the address, and followed while they work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

import reflex as rx
from reflex.event import EventSpec

from tensorant_app import routes
from tensorant_app.components.badges import label, machine_badge, run_badge
from tensorant_app.components.buttons import action_with_reason, button, icon_button
from tensorant_app.components.cards import card, page_head, toolbar
from tensorant_app.components.choices import Option, segmented, select
from tensorant_app.components.empty import empty_state, nothing_found
from tensorant_app.components.forms import search_input
from tensorant_app.components.sparks import interval_cell, sparkline
from tensorant_app.components.stats import progress
from tensorant_app.components.tables import Column, Sorting, cell, data_table, name_cell, paging, table_row
from tensorant_app.components.texts import avatar, dash_if_empty, meta, phone_only, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.members import Caller
from tensorant_app.domain.run_groups import RunGroup
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.run_actions import READ_ONLY, RunActions, run_dialogs
from tensorant_app.pages.run_rows import CELL, RunRow, rows_of
from tensorant_app.services import run_list, sessions
from tensorant_app.services.run_list import SORTS, Asked, RunPage
from tensorant_app.state import AppState, id_of

_EVERY = 2.0
"""Seconds between two looks at a list that is open."""
_GROUPS = {
    RunGroup.ALL: "All",
    RunGroup.LIVE: "Live",
    RunGroup.NEEDS_YOU: "Needs you",
    RunGroup.DRAFTS: "Drafts",
    RunGroup.ENDED: "Ended",
}


_TWO_LINES = {
    "display": "-webkit-box",
    "-webkit-line-clamp": "2",
    "-webkit-box-orient": "vertical",
    "overflow": "hidden",
    "overflow_wrap": "anywhere",
    "margin_top": "3px",
}
"""A reason can be long; the whole of it stands in the tooltip and on the run's page."""


class RunsState(AppState):
    rows: list[RunRow] = []
    counts: dict[str, str] = dict.fromkeys(_GROUPS, "")
    group: str = RunGroup.ALL.value
    search: str = ""
    version: str = ""
    owner: str = ""
    sort: str = "created"
    is_descending: bool = True
    page: int = 1
    first: int = 0
    last: int = 0
    total: int = 0
    versions: list[Option] = []
    owners: list[Option] = []
    has_any: bool = False
    is_loading: bool = True
    search_stamp: int = 0
    """Another number makes the search box anew, with the text of the address."""
    _shown: str = ""
    """What the rows were made of, so that only a change is sent."""

    @rx.event
    async def load(self) -> EventSpec | None:
        """What the address asks for; then follow it."""
        project, asked = segment(self, "projects"), _asked(self._query())
        found = await self._see(lambda session, caller: run_list.list_page(session, caller, id_of(project), asked))
        if found is None:
            return None
        if asked.search != self.search:
            self.search, self.search_stamp = asked.search, self.search_stamp + 1
        self._take(asked)
        self._show(found)
        return RunsState.follow

    @rx.event(background=True)
    async def follow(self) -> None:
        async with self:
            project, asked = segment(self, "projects"), _asked(self._query())

        def look(session: Any, caller: Caller) -> RunPage:
            return run_list.list_page(session, caller, id_of(project), asked)

        def show(found: RunPage) -> bool:
            if (project, asked) != (segment(self, "projects"), _asked(self._query())):
                return False
            self._show(found)
            return True

        await self._watch(look, show, every=_EVERY)

    @rx.event
    async def narrow(self, name: str, value: str) -> EventSpec | None:
        """Another search, group, filter or page: it becomes the address, which loads itself."""
        if await self._see(sessions.who_am_i) is None:
            return None
        query = {**self._query(), name: value}
        if name != "page":
            query.pop("page", None)
        if name == "search":
            self.search = value
        return self._go({key: text for key, text in query.items() if text and (key, text) != ("page", "1")})

    @rx.event
    async def sort_by(self, key: str) -> EventSpec | None:
        """Once: this column. Again: the other way round."""
        if await self._see(sessions.who_am_i) is None:
            return None
        down = not self.is_descending if key == self.sort else key == "created"
        return self._go({**self._query(), "sort": key, "order": "down" if down else "up", "page": ""})

    @rx.event
    async def turn(self, by: int) -> EventSpec | None:
        """The next page, or the one before: its rows at once, then its address."""
        query = {**self._query(), "page": str(max(self.page + by, 1))}
        project, asked = segment(self, "projects"), _asked(query)
        found = await self._see(lambda session, caller: run_list.list_page(session, caller, id_of(project), asked))
        if found is None:
            return None
        self._show(found)
        return self._go(query)

    @rx.event
    async def show_all(self) -> EventSpec | None:
        """Without search and filters."""
        return None if await self._see(sessions.who_am_i) is None else self._go({})

    def _query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self._here()).query))

    def _go(self, query: Mapping[str, str]) -> EventSpec:
        words = urlencode({key: text for key, text in query.items() if text})
        path = urlsplit(self._here()).path
        return rx.redirect(f"{path}?{words}" if words else path, replace=True)

    def _take(self, asked: Asked) -> None:
        self.group, self.sort, self.is_descending = asked.group.value, asked.sort, asked.descending
        self.version = str(asked.version_id or "")
        self.owner = str(asked.member_id or "")

    def _show(self, found: RunPage) -> None:
        rows = rows_of(found, segment(self, "projects"))
        facts = repr((rows, found.counts, found.total, found.page, found.versions, found.owners))
        self.is_loading = False
        if facts == self._shown:
            return
        self._shown, self.rows = facts, rows
        self.counts = {group.value: f"{number:,}" for group, number in found.counts.items()}
        self.page, self.first, self.last, self.total = found.page, found.first, found.last, found.total
        self.versions = [Option(str(key), f"Data {label}") for key, label in found.versions]
        self.owners = [Option(str(key), name) for key, name in found.owners]
        self.has_any = found.has_any or bool(found.versions)


def _asked(query: Mapping[str, str]) -> Asked:
    """What the address says; nonsense in it counts as nothing said."""
    group, sort, page = query.get("group", ""), query.get("sort", ""), query.get("page", "")
    return Asked(
        search=query.get("search", "")[:100],
        group=RunGroup(group) if group in set(RunGroup) else RunGroup.ALL,
        version_id=_id(query.get("version", "")),
        member_id=_id(query.get("owner", "")),
        sort=sort if sort in SORTS else "created",
        descending=query.get("order", "down") != "up",
        page=int(page) if page.isdecimal() and len(page) < 7 else 1,
    )


def _id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


@rx.page(route=routes.RUNS, title="Runs · Tensorant", on_load=[*ENTER, RunActions.close, RunsState.load])
def runs_page() -> rx.Component:
    return framed(
        "runs",
        page_head(
            "Runs",
            sub=["Every training run of this project, also those an experiment made."],
            actions=[if_(RunsState.has_any, _configure())],
        ),
        rx.cond(RunsState.has_any | RunsState.is_loading, rx.fragment(_tools(), _table()), _no_runs()),
        run_dialogs(),
        crumbs=[Crumb("Runs")],
        full_width=True,
        shows_refusal=False,
    )


def _configure() -> rx.Component:
    may = AppState.me.may_prepare
    active = button(
        "Configure a run",
        kind="solid",
        icon_name="plus",
        href=routes.configure(ProjectState.project.id),
        key="n",
        command="Configure a run",
    )
    off = action_with_reason(button("Configure a run", kind="solid", icon_name="plus", disabled=True), READ_ONLY)
    return rx.cond(may, active, off)


def _tools() -> rx.Component:
    groups = [Option(group.value, words, RunsState.counts[group.value]) for group, words in _GROUPS.items()]
    state = RunsState
    return toolbar(
        segmented(groups, state.group, lambda value: state.narrow("group", value), label="Status"),
        rx.el.div(
            search_input(
                "search", "Filter by name or id", default_value=state.search, on_change=_later(state.narrow, "search")
            ),
            key=state.search_stamp,
            class_name="wide-only",
            style={"width": "200px"},
        ),
        _filter("version", "All data", state.versions, state.version),
        _filter("owner", "Everybody", state.owners, state.owner),
    )


def _filter(name: str, words: str, options: rx.Var[list[Option]], value: rx.Var[str]) -> rx.Component:
    return rx.el.div(
        select(
            f"by-{name}",
            options,
            value=value,
            on_change=lambda chosen: RunsState.narrow(name, chosen),
            placeholder=words,
            label=words,
        ),
        class_name="wide-only",
        style={"width": "130px"},
    )


def _table() -> rx.Component:
    state = RunsState
    return data_table(
        [
            Column("Name", sort="name", phone="lead", width="22%", skeleton=("110px", "92px")),
            Column("Status", sort="state", phone="lead", skeleton=("84px", "150px"), width="26%"),
            Column("Data", sort="version", skeleton=("22px",)),
            Column("Method", skeleton=("64px",)),
            Column("Validation loss", number=True, phone="aside", skeleton=("64px",)),
            Column("Δ base", number=True, phone="aside", skeleton=("90px",)),
            Column("Spend", number=True, skeleton=("44px",)),
            Column("Created", number=True, sort="created", skeleton=("44px",)),
            Column("Owner", hidden_label=True, skeleton=("22px",)),
            Column("Actions", hidden_label=True, width="40px", skeleton=("22px",)),
        ],
        state.rows,
        _row,
        caption="Runs",
        empty=nothing_found("No run is like this.", button("Show all runs", on_click=state.show_all)),
        is_loading=state.is_loading,
        sorting=Sorting(state.sort, state.is_descending, state.sort_by),
        foot=paging(
            rx.cond(state.total == 1, "1 run", f"{state.total} runs"),
            state.first,
            state.last,
            state.total,
            has_previous=state.first > 1,
            has_next=state.last < state.total,
            on_previous=state.turn(-1),
            on_next=state.turn(1),
        ),
    )


def _row(row: rx.Var[RunRow]) -> rx.Component:
    return table_row(
        name_cell(row.name, row.href, rx.el.span(row.short, class_name="mono nowrap wide-only")),
        cell(
            rx.el.div(
                run_badge(row.state, row.percent),
                machine_badge(row.machine, is_overdue=row.is_checking),
                if_(row.is_trial, label("Trial")),
                class_name="row wrap",
            ),
            if_text(row.under, rx.el.div(row.under, class_name="meta", title=row.under, style=_TWO_LINES)),
            if_(row.percent >= 0, progress(row.percent, "Done", in_cell=True)),
            phone="lead",
        ),
        cell(row.data),
        cell(rx.el.span(row.method, class_name="nowrap")),
        cell(
            rx.el.span(
                phone_only(rx.cond(row.loss != "", "val. loss ", "")),
                sparkline(row.losses, is_live=row.is_live),
                " ",
                if_text(row.loss, rx.el.span(row.loss), rx.el.span("–", class_name="gray wide-only")),
                class_name="nowrap",
            ),
            number=True,
            phone="aside",
        ),
        cell(_change(row), number=True, phone="aside"),
        cell(dash_if_empty(row.spent), if_text(row.spent, meta(" ", row.spent_word)), number=True),
        cell(when(row.created, row.created_exact), number=True, gray=True),
        cell(if_text(row.owner, avatar(row.initials, row.owner))),
        cell(_menu(row)),
    )


def _change(row: rx.Var[RunRow]) -> rx.Component:
    words = rx.el.span(row.change, class_name=rx.match(row.tone, ("good", "good"), ("bad", "bad"), ""))
    judged = rx.el.div(
        interval_cell(row.bounds, width=CELL),
        words,
        class_name="row nowrap",
        style={"justify_content": "flex-end", "min_width": f"{CELL + 44}px"},
    )
    return rx.cond(row.has_bounds, judged, rx.el.span("–", class_name="gray wide-only"))


def _menu(row: rx.Var[RunRow]) -> rx.Component:
    item = rx.dropdown_menu.item
    off = ~AppState.me.may_prepare
    return rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(icon_button(f"Actions of {row.name}", "ellipsis", small=True, class_name="above")),
        rx.dropdown_menu.content(
            if_(
                row.is_draft,
                item("Launch …", on_select=RunActions.ask_launch(row.id), disabled=~AppState.me.may_spend),
            ),
            if_(row.can_retry, item("Create retry draft", on_select=RunActions.retry(row.id), disabled=off)),
            item("Configure another like this", on_select=RunActions.copy(row.id), disabled=off),
            item("Rename …", on_select=RunActions.ask_rename(row.id, row.name), disabled=off),
            if_(off, item(READ_ONLY, disabled=True)),
            align="end",
        ),
        modal=False,
    )


def _no_runs() -> rx.Component:
    return card(
        empty_state(
            "No runs yet",
            rx.fragment(
                "A run trains one adapter for ",
                ProjectState.project.base,
                " from a frozen dataset version. Saving one is free. The demo makes one on this computer:",
            ),
            actions=[_configure()],
            command="tensorant demo",
        ),
        padded=False,
    )


def _later(handler: Any, name: str) -> Any:
    """The event once typing has stopped for 300 ms."""
    return lambda value: handler(name, value).debounce(300)
