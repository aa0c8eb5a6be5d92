"""The rows of an import as they are drawn: the list with its filters, the chosen row, and what was done to them."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import callout, refusal
from tensorant_app.components.cards import card, row, stack
from tensorant_app.components.chats import bubbles
from tensorant_app.components.choices import select
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.forms import search_input, text_area
from tensorant_app.components.links import bare_link
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_, if_text, pick
from tensorant_app.pages.import_findings import FindingsState
from tensorant_app.pages.import_rows import EditorState, LineRow, Picture, ShowLink, StepRow
from tensorant_app.pages.lists import page_foot
from tensorant_app.pages.rows import no_rows, rows_keys
from tensorant_app.state import AppState


def editor() -> rx.Component:
    """The rows at the left, the chosen one at the right, and below what was done."""
    head = row(
        rx.el.h2("Rows", class_name="h2"),
        rx.el.nav(rx.foreach(EditorState.shows, _link), class_name="seg links", aria_label="Which rows"),
        wraps=True,
    )
    left = stack(_list(), if_(AppState.me.may_prepare, _steps()))
    return rx.el.section(head, rx.el.div(left, _one(), class_name="md"), _bulk_dialog(), class_name="stack tight")


def act_on_kind() -> rx.Component:
    """For the card of a kind of error or warning: its rows in the list below, and all of them left out."""
    look = button("Look through them", size="sm", href=FindingsState.rows_href)
    out = button("Leave out all …", size="sm", on_click=EditorState.ask_all(FindingsState.code))
    return row(look, if_(AppState.me.may_prepare, out))


def _link(one: rx.Var[ShowLink]) -> rx.Component:
    return bare_link(
        one.label,
        rx.el.span(one.count, class_name="c"),
        href=one.href,
        custom_attrs={"aria-current": pick(one.is_open, "true", "false")},
    )


def _list() -> rx.Component:
    def line(one: rx.Var[LineRow]) -> rx.Component:
        inner = rx.el.button(
            rx.el.span(one.number, class_name="num gray"),
            rx.el.span(one.words, class_name="trunc"),
            rx.el.span(one.state, class_name="meta"),
            type="button",
            class_name="row-pick",
            on_click=EditorState.pick(one.row),
            custom_attrs={"aria-current": pick(one.row == EditorState.picked.row, "true", "false")},
        )
        return rx.el.div(inner, custom_attrs={"data-row": ""})

    search = rx.el.form(
        search_input("import-search", "Search these rows", default_value=EditorState.searched),
        on_submit=EditorState.search,
        key=EditorState.searched,
        class_name="rows-search",
    )
    kinds = rx.el.div(
        select(
            "of-kind",
            EditorState.kinds,
            value=EditorState.kind,
            on_change=EditorState.choose_kind,
            label="What was found",
        ),
        class_name="rows-search",
    )
    words = rx.cond(EditorState.shows_left_out, "Put back all of these …", "Leave out all of these …")
    every = rx.el.div(button(words, size="sm", on_click=EditorState.ask_all("")), class_name="rows-search")
    return card(
        search,
        if_(EditorState.kinds.length() > 0, kinds),
        if_(EditorState.is_chosen & AppState.me.may_prepare, every),
        rx.el.div(rx.foreach(EditorState.rows, line), class_name="rows-list"),
        if_(EditorState.rows.length() == 0, rx.el.p(no_rows(EditorState.searched), class_name="meta cb")),
        page_foot(rows_keys(), EditorState.row_pages, keys=True),
        padded=False,
    )


def _one() -> rx.Component:
    picked = EditorState.picked
    faults = rx.el.ul(rx.foreach(EditorState.row_faults, lambda fault: rx.el.li(fault)), class_name="reasons")
    has_faults = EditorState.row_faults.length() > 0
    shown = rx.cond(
        has_faults,
        stack(callout(faults, tone="red"), rx.el.pre(picked.text, class_name="mono raw")),
        bubbles(EditorState.chat),
    )
    body = rx.cond(EditorState.is_editing, _form(), shown)
    return if_(
        picked.row > 0,
        card(
            rx.el.div(body, class_name=pick(has_faults | EditorState.is_editing, "cb", "")),
            title=picked.title,
            beside_title=[meta(picked.source), _state_word()],
            right=[if_(AppState.me.may_prepare & ~EditorState.is_editing, _acts())],
            padded=False,
        ),
    )


def _state_word() -> rx.Component:
    words = rx.match(
        EditorState.picked.state, ("changed", "changed"), ("left_out", "left out"), ("rejected", "with errors"), ""
    )
    return if_text(words, rx.badge(words, variant="soft", color_scheme="gray", high_contrast=True))


def _acts() -> rx.Component:
    state = EditorState.picked.state
    change = button("Edit", size="sm", icon_name="pencil", on_click=EditorState.edit(True))
    out = button("Leave out", size="sm", on_click=EditorState.leave_out)
    back = button("Put back", size="sm", on_click=EditorState.put_back)
    return row(
        change,
        if_(state != "left_out", out),
        if_((state == "left_out") | (state == "changed"), back),
    )


def _form() -> rx.Component:
    return rx.el.form(
        stack(
            refusal(AppState.error, AppState.reasons),
            rx.el.label("The row as JSON", html_for="row-text"),
            text_area("row-text", default_value=EditorState.picked.text, rows=18),
            meta("A conversation (messages), or the columns as the file has them. It is read as strictly as the file."),
            if_(EditorState.pictures.length() > 0, _kept()),
            row(
                button("Save row", kind="solid", submits=True),
                button("Cancel", kind="ghost", on_click=EditorState.edit(False)),
            ),
        ),
        on_submit=EditorState.save,
        key=EditorState.picked.title,
    )


def _kept() -> rx.Component:
    """Which name in the text is which image."""

    def one(picture: rx.Var[Picture]) -> rx.Component:
        shown = rx.el.img(src=picture.address, alt="", loading="lazy", class_name="shot")
        return rx.el.figure(shown, rx.el.figcaption(picture.name, class_name="mono meta"), class_name="shot-named")

    said = meta("The images of this row. Take a part out of the text, and its image leaves the row.", block=True)
    return rx.el.div(said, rx.el.div(rx.foreach(EditorState.pictures, one), class_name="shots"))


def _steps() -> rx.Component:
    def line(step: rx.Var[StepRow]) -> rx.Component:
        return rx.el.div(rx.el.div(rx.el.span(step.words), meta(step.by, block=True), class_name="tx"), class_name="li")

    undo = button("Undo", size="sm", icon_name="undo_2", on_click=EditorState.undo, command="Undo the last edit")
    add = rx.el.form(
        row(
            select("other-file", EditorState.others, label="Another file of this dataset"),
            button("Add its rows", size="sm", submits=True),
        ),
        on_submit=EditorState.append,
        class_name="rows-search",
    )
    none = rx.el.p("Nothing was changed. The file itself always stays as it is.", class_name="meta cb")
    listed = rx.el.div(rx.foreach(EditorState.steps, line), class_name="rows-list")
    return card(
        if_(EditorState.counts.steps > 0, listed, none),
        if_(EditorState.others.length() > 0, add),
        title="Edits",
        right=[if_(EditorState.counts.steps > 0, undo)],
        padded=False,
    )


def _bulk_dialog() -> rx.Component:
    question = EditorState.question
    return named_dialog(
        question.title,
        question.lead,
        confirm_label=question.confirm,
        is_open=question.title != "",
        on_open_change=EditorState.close_question,
        on_confirm=EditorState.act_on_all,
        error=AppState.error,
        kind="solid",
    )
