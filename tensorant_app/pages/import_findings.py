"""What an import found: errors and warnings by kind, the rows of the chosen kind, and the rejected rows to take home."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import download_button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, grid, stack
from tensorant_app.components.links import bare_link
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import meta, mono, phone_only
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.data_codes import CODES, About, NoticeCode, RowCode
from tensorant_app.domain.wording import count
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import Pages, address, page_foot, pages_of, query, start_of
from tensorant_app.services import row_errors
from tensorant_app.services.row_errors import ErrorGroup, ErrorRow
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class GroupRow:
    code: str
    title: str
    hint: str
    rows: str
    href: str
    is_open: bool


@dataclass(frozen=True)
class FaultRow:
    row: str
    href: str
    """Where the row itself is shown."""
    line: str
    path: str
    message: str


class FindingsState(AppState):
    errors: list[GroupRow] = []
    warnings: list[GroupRow] = []
    warned: str = ""
    """How many places the warnings name."""
    code: str = ""
    """The chosen kind, and below its name."""
    kind: str = ""
    rows_href: str = ""
    """Where the rows of this kind are looked through and edited."""
    faults: list[FaultRow] = []
    fault_pages: Pages = Pages()

    @rx.event
    async def load(self) -> None:
        """The kinds, and the rows of the one that the address names, else of the biggest."""
        text, kind, start = segment(self, "imports"), query(self, "kind"), start_of(self)
        found = await self._see(
            lambda session, caller: (
                row_errors.group_errors(session, caller, id_of(text)),
                row_errors.group_warnings(session, caller, id_of(text)),
            )
        )
        if found is None:
            return
        errors, warnings = found
        kind = kind or next((group.code for group in (*errors, *warnings)), "")
        page = await self._see(
            lambda session, caller: row_errors.rows_with(session, caller, id_of(text), kind, start=start)
        )
        rows, total = page or ((), 0)
        self.errors = [_group(self, group, kind) for group in errors]
        self.warnings = [_group(self, group, kind) for group in warnings]
        self.warned = count(sum(group.findings for group in warnings), "place")
        about = about_code(kind)
        self.code, self.kind = (kind, about.meaning) if about else ("", kind)
        self.rows_href = kind_address(self, kind)
        self.faults = [_fault(self, row) for row in rows]
        self.fault_pages = pages_of(self, len(rows), total)


def about_code(text: str) -> About | None:
    """What a row's error or warning is called; None for a word that is no code."""
    if text in [*RowCode]:
        return CODES[RowCode(text)]
    return CODES[NoticeCode(text)] if text in [*NoticeCode] else None


def kind_address(state: AppState, code: str) -> str:
    """The open import with the rows of one kind in its list: those with errors, or those that can be trained."""
    show = "rejected" if code in [*RowCode] else ""
    return address(state, of=code, show=show, at=0, row="")


def _group(state: AppState, group: ErrorGroup, kind: str) -> GroupRow:
    about = CODES[RowCode(group.code) if group.code in [*RowCode] else NoticeCode(group.code)]
    href = address(state, kind=group.code, **{"from": 0})
    return GroupRow(group.code, about.meaning, about.advice, f"{group.rows:,}", href, group.code == kind)


def _fault(state: AppState, row: ErrorRow) -> FaultRow:
    return FaultRow(
        f"{row.row:,}" if row.row is not None else "file",
        address(state, row=row.row) if row.row is not None else "",
        f"{row.line:,}" if row.line is not None else "",
        row.path,
        row.message,
    )


def findings(
    import_id: rx.Var[str], rejected: rx.Var[str], has_rejected: rx.Var[bool], *below: rx.Component, act: rx.Component
) -> rx.Component:
    """Kinds at the left with what stands below them, the chosen kind's rows at the right with what can be done to all."""
    clean = callout("Every row is ready: nothing has to be mended.", tone="green")
    some = (FindingsState.errors.length() > 0) | (FindingsState.warnings.length() > 0)
    errors = _groups(
        "Errors by kind",
        FindingsState.errors,
        [meta(rejected, " rows")],
        download_button("Download the bad rows", routes.import_bad_rows(import_id), size="sm"),
    )
    warnings = _groups("Warnings by kind", FindingsState.warnings, [meta(FindingsState.warned)])
    left = stack(
        if_(FindingsState.errors.length() > 0, errors, if_(~has_rejected, clean)),
        if_(FindingsState.warnings.length() > 0, warnings),
        *below,
    )
    return grid(left, if_(some, _rows(act)), layout="md")


def _groups(
    title: str, groups: rx.Var[list[GroupRow]], right: list[rx.Component], *under: rx.Component
) -> rx.Component:
    def line(group: rx.Var[GroupRow]) -> rx.Component:
        return bare_link(
            rx.el.div(rx.el.div(group.title, class_name="strong"), meta(group.hint, block=True), class_name="tx"),
            rx.el.span(
                rx.el.span(group.rows, class_name="num strong"), meta("Show rows", block=True), class_name="found"
            ),
            href=group.href,
            class_name="li",
            custom_attrs={"aria-current": rx.cond(group.is_open, "true", "false"), "data-row": ""},
        )

    foot = [rx.el.div(*under, class_name="tablefoot")] if under else []
    return card(rx.foreach(groups, line), *foot, title=title, right=right, padded=False)


_FAULTS = [
    Column("Row", number=True, phone="aside", width="64px"),
    Column("Line", number=True, width="64px"),
    Column("What it is", phone="lead"),
]


def _rows(act: rx.Component) -> rx.Component:
    def draw(found: rx.Var[FaultRow]) -> rx.Component:
        return table_row(
            cell(
                phone_only("row "),
                if_text(found.href, bare_link(found.row, href=found.href, class_name="link"), found.row),
                number=True,
                phone="aside",
            ),
            cell(found.line, number=True, gray=True),
            cell(found.message, if_text(found.path, rx.el.div(mono(found.path, small=True))), phone="lead"),
        )

    table = data_table(
        _FAULTS,
        FindingsState.faults,
        draw,
        caption="Rows of this kind",
        in_card=False,
        tall=False,
        foot=page_foot("", FindingsState.fault_pages),
    )
    return card(
        rx.el.div(table, class_name="tall-list", tab_index=0, role="group", aria_label="Rows of this kind"),
        title=FindingsState.kind,
        right=[if_text(FindingsState.code, act)],
        padded=False,
    )
