"""What can be done with a saved run from wherever it is shown: launch, rename, try again, configure another like it.

A page places `run_dialogs()` once, begins its on_load with `RunActions.close`, and calls `RunActions.ask_launch(id)`, `.ask_rename(id, name)`, `.retry(id)` or
`.copy(id)` from its buttons.
"""

from __future__ import annotations

from typing import Any

import reflex as rx
from reflex.event import EventSpec

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import refusal
from tensorant_app.components.choices import switch
from tensorant_app.components.dialogs import form_dialog, paid_dialog
from tensorant_app.components.forms import field, text_input
from tensorant_app.components.stats import Fact, Stat
from tensorant_app.components.values import if_
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.pages.frame import segment
from tensorant_app.pages.launch_words import LaunchCard, card_of
from tensorant_app.pages.lists import put
from tensorant_app.services import drafts, launches, runs, sessions
from tensorant_app.state import AppState, id_of

_AFTER_TRIAL = "Its report says what the full run would take. Its adapter is diagnostic and is not scored."
OF_ANOTHER_PAGE = "The question was about the page before. Nothing was started; press the button of this page."
READ_ONLY = "Viewers only look. Ask an admin or the owner for another role."


class RunActions(AppState):
    launch: LaunchCard = LaunchCard()
    is_launch_open: bool = False
    scores: bool = True
    """Score the adapter as soon as it is ready."""
    renamed: str = ""
    """The run whose name is being changed."""
    old_name: str = ""
    is_rename_open: bool = False

    @rx.event
    async def close(self) -> None:
        """A page is opened: what stood open when the last one was left stays behind."""
        if await self._see(sessions.who_am_i) is not None:
            put(self, is_launch_open=False, is_rename_open=False)

    @rx.event
    async def ask_launch(self, run: str) -> None:
        """Open the dialog, with what is true now."""
        found = await self._see(lambda session, caller: launches.show_launch(session, caller, id_of(run)))
        if found is not None:
            self.launch, self.scores, self.is_launch_open = card_of(found), found.evaluates, True

    @rx.event
    async def set_launch_open(self, is_open: bool) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.is_launch_open = is_open

    @rx.event
    async def score_after(self, scores: bool) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.scores = scores

    @rx.event
    async def start(self) -> EventSpec | None:
        """Confirmed: off it goes, and to its page. One that is still open from the page before starts nothing."""
        card, scores = self.launch, self.scores
        if segment(self, "runs") not in ("", card.run):
            put(self, is_launch_open=False, error=OF_ANOTHER_PAGE)
            return None
        seen = HourlyRate(Money(card.price_micros))
        await self._do(
            lambda session, caller: runs.launch_run(
                session, caller, id_of(card.run), evaluates=scores, shown_price=seen
            )
        )
        if self.error:
            return None
        self.is_launch_open = False
        return rx.redirect(routes.run(card.project, card.run))

    @rx.event
    async def ask_rename(self, run: str, name: str) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.renamed, self.old_name, self.is_rename_open = run, name, True

    @rx.event
    async def set_rename_open(self, is_open: bool) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.is_rename_open = is_open

    @rx.event
    async def rename(self, form: dict[str, Any]) -> EventSpec | None:
        run, name = self.renamed, str(form.get("new-name", ""))
        await self._do(lambda session, caller: drafts.rename_run(session, caller, id_of(run), name))
        if self.error:
            return None
        self.is_rename_open = False
        return rx.redirect(self._here(), replace=True)

    @rx.event
    async def retry(self, run: str) -> EventSpec | None:
        """A new draft with the same settings; to its page."""
        made = await self._do(lambda session, caller: drafts.create_retry_draft(session, caller, id_of(run)))
        return rx.redirect(routes.run(made.project_id, made.id)) if made else None

    @rx.event
    async def full_draft(self, run: str) -> EventSpec | None:
        """The full run that a trial measured, as a draft; to its page."""
        made = await self._do(lambda session, caller: drafts.create_full_draft(session, caller, id_of(run)))
        return rx.redirect(routes.run(made.project_id, made.id)) if made else None

    @rx.event
    async def copy(self, run: str) -> EventSpec | None:
        """Fill the form with its settings; to Configure."""
        project = await self._do(lambda session, caller: drafts.copy_to_form(session, caller, id_of(run)))
        return rx.redirect(routes.configure(project)) if project else None


def run_dialogs() -> rx.Component:
    """The dialogs of `RunActions`; once in a page."""
    return rx.fragment(_launch_dialog(), _rename_dialog())


def _launch_dialog() -> rx.Component:
    card = RunActions.launch
    words = if_(card.is_rented, "Score the adapter: on a machine of its own, billed as well", "Score the adapter, free")
    return paid_dialog(
        card.title,
        card.lead,
        price=[
            Stat("Price", card.price, "/h"),
            Stat("Expected", card.expected, card.cost),
            Stat("Cap (est.)", card.cap),
        ],
        facts=[
            Fact("Machine", card.machine),
            Fact("If none is free", card.further, shown=card.further != ""),
            Fact("Billed", card.billed, under=if_(card.is_rented, "The cap is an estimate, not a billing cap.", "")),
            Fact("At most", card.limit),
            Fact("At the limit", card.at_limit),
            Fact("Work", card.plan, under=card.source),
            Fact("Queue", card.queue),
            Fact("Checks", "All are looked at again first. Where one fails, it comes back as a draft with the reason."),
            Fact(
                "Afterwards",
                switch("scores", words, checked=RunActions.scores, on_change=RunActions.score_after),
                shown=~card.is_trial,
            ),
            Fact("Afterwards", _AFTER_TRIAL, shown=card.is_trial),
        ],
        confirm_label=card.confirm,
        is_open=RunActions.is_launch_open,
        on_open_change=RunActions.set_launch_open,
        on_confirm=RunActions.start,
        disabled=~card.can_confirm,
        error=AppState.error,
        reasons=AppState.reasons,
    )


def _rename_dialog() -> rx.Component:
    form = rx.el.form(
        if_(
            RunActions.is_rename_open,
            field(
                "new-name",
                "New name",
                text_input("new-name", default_value=RunActions.old_name, required=True),
                hint="At most 100 characters",
            ),
        ),
        refusal(AppState.error),
        id="rename-form",
        on_submit=RunActions.rename,
    )
    return form_dialog(
        "Rename the run",
        "Its settings stay as they are.",
        form,
        actions=[
            button("Cancel", size="lg", on_click=RunActions.set_rename_open(False)),
            button("Rename", kind="solid", size="lg", submits=True, attributes={"form": "rename-form"}),
        ],
        is_open=RunActions.is_rename_open,
        on_open_change=RunActions.set_rename_open,
    )
