"""Deleting a version on its page: a question, and what uses it where it is refused."""

from __future__ import annotations

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.values import if_
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import put
from tensorant_app.services import deletions, versions
from tensorant_app.state import AppState, id_of


class DeletionState(AppState):
    is_open: bool = False

    @rx.event
    async def ask(self, is_open: bool) -> None:
        """Open or close the question; a page begins with it closed."""
        text = segment(self, "versions")
        if await self._see(lambda session, caller: versions.show_version(session, caller, id_of(text))) is not None:
            put(self, is_open=is_open)

    @rx.event
    async def delete(self):
        """For good; refused while anything uses it."""
        project, text = segment(self, "projects"), segment(self, "versions")
        await self._do(lambda session, caller: deletions.delete_version(session, caller, id_of(text)))
        return None if self.error else rx.redirect(routes.data(project))


def delete_button() -> rx.Component:
    return if_(AppState.me.may_decide, button("Delete", kind="ghost", size="sm", on_click=DeletionState.ask(True)))


def delete_dialog() -> rx.Component:
    return named_dialog(
        "Delete this version?",
        "Its rows and masks are removed for good; the imported file stays. What a run or an evaluation uses is kept.",
        confirm_label="Delete version",
        cancel_label="Keep it",
        is_open=DeletionState.is_open,
        on_open_change=DeletionState.ask,
        on_confirm=DeletionState.delete,
        error=AppState.error,
        reasons=AppState.reasons,
    )
