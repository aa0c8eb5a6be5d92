"""Deleting a version, an imported file or a dataset on its page: what uses it, what it gives back, and the question."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import callout
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.values import if_
from tensorant_app.domain.wording import count
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import put
from tensorant_app.pages.words import size
from tensorant_app.services import deletions, sessions
from tensorant_app.services.deletions import Deletable, Deletion
from tensorant_app.state import AppState, id_of

_USES = 8
"""Named in the question."""


@dataclass(frozen=True)
class DeletionQuestion:
    title: str = ""
    lead: str = ""
    confirm: str = ""
    is_used: bool = False


class DeletionState(AppState):
    is_open: bool = False
    question: DeletionQuestion = DeletionQuestion()
    uses: list[str] = []
    dataset: str = ""
    """The one that is asked about, where neither a version nor an import is open."""

    @rx.event
    async def ask(self, is_open: bool) -> None:
        """Open or close the question; a page begins with it closed."""
        if is_open:
            await self._ask("")
        elif await self._see(sessions.who_am_i) is not None:
            put(self, is_open=False)

    @rx.event
    async def ask_dataset(self, dataset: str) -> None:
        await self._ask(dataset)

    @rx.event
    async def delete(self):
        """For good; refused while anything uses it."""
        project = segment(self, "projects")
        await self._do(lambda session, caller: deletions.delete(session, caller, *_subject(self, self.dataset)))
        if self.error:
            return None
        self.is_open = False
        return rx.redirect(routes.data(project))

    async def _ask(self, dataset: str) -> None:
        found = await self._see(
            lambda session, caller: deletions.show_deletion(session, caller, *_subject(self, dataset))
        )
        if found is not None:
            more = [f"… and {len(found.uses) - _USES:,} more."] if len(found.uses) > _USES else []
            uses = [*found.uses[:_USES], *more]
            put(self, is_open=True, question=_question(found), uses=uses, dataset=dataset)


def _subject(state: AppState, dataset: str) -> tuple[Deletable, UUID]:
    """What the open page shows: a version, an import, or on the data page a dataset."""
    for kind, place in ((Deletable.VERSION, "versions"), (Deletable.IMPORT, "imports")):
        if text := segment(state, place):
            return kind, id_of(text)
    return Deletable.DATASET, id_of(dataset)


_KEPT = "What a run or an evaluation uses is kept."
_LEADS = {
    Deletable.VERSION: "Its rows and masks are removed for good; the imported file stays. " + _KEPT,
    Deletable.IMPORT: "The file as it was sent, its rows, its edits and what was found in it are removed for good.",
    Deletable.DATASET: "All of it is removed for good. " + _KEPT,
}


def _question(found: Deletion) -> DeletionQuestion:
    what = f"the dataset {found.name}" if found.kind is Deletable.DATASET else found.name
    inside = f"{count(found.imports, 'file')} and {count(found.versions, 'version')}. "
    freed = f" {size(found.bytes)} of storage are given back."
    lead = (inside if found.kind is Deletable.DATASET else "") + _LEADS[found.kind] + freed
    if found.uses:
        lead = "It is in use, so it is kept."
    return DeletionQuestion(f"Delete {what}?", lead, f"Delete {found.kind.value}", bool(found.uses))


def delete_button() -> rx.Component:
    return if_(AppState.me.may_decide, button("Delete", kind="ghost", size="sm", on_click=DeletionState.ask(True)))


def delete_dataset_button(dataset: rx.Var[str]) -> rx.Component:
    act = DeletionState.ask_dataset(dataset)
    return if_(AppState.me.may_decide, button("Delete dataset", kind="ghost", size="sm", on_click=act))


def delete_dialog() -> rx.Component:
    question = DeletionState.question
    uses = rx.el.ul(rx.foreach(DeletionState.uses, lambda use: rx.el.li(use)), class_name="reasons")
    return named_dialog(
        question.title,
        question.lead,
        confirm_label=question.confirm,
        cancel_label="Keep it",
        is_open=DeletionState.is_open,
        on_open_change=DeletionState.ask,
        on_confirm=DeletionState.delete,
        error=AppState.error,
        reasons=AppState.reasons,
        extra=if_(question.is_used, rx.el.div(callout(uses, tone="amber"), style={"margin_top": "14px"})),
        disabled=question.is_used,
    )
