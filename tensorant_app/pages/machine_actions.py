"""What a person can do about a machine from wherever it is named."""

from __future__ import annotations

import reflex as rx

from tensorant_app.services import machine_actions
from tensorant_app.state import AppState, id_of


class MachineActions(AppState):
    @rx.event
    async def retry_cleanup(self, machine: str) -> None:
        """The delete call once more, now."""
        await self._do(lambda session, caller: machine_actions.retry_cleanup(session, caller, id_of(machine)))
