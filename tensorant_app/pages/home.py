"""Where one lands after signing in: the project one last worked in, else the list of projects."""

from __future__ import annotations

import reflex as rx
from reflex.event import EventSpec

from tensorant_app import routes
from tensorant_app.pages.frame import ENTER, framed
from tensorant_app.services import projects
from tensorant_app.state import AppState


class HomeState(AppState):
    @rx.event
    async def go(self) -> EventSpec | None:
        found = await self._see(projects.last_project)
        if self.error:
            return None
        return rx.redirect(routes.overview(found) if found else routes.PROJECTS, replace=True)


@rx.page(route=routes.HOME, title="Tensorant", on_load=[*ENTER, HomeState.go])
def home_page() -> rx.Component:
    return framed("projects", rx.el.h1("Tensorant", class_name="title"), project=False)
