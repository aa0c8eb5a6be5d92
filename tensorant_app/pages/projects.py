"""The projects of the organization, and a new one on a base model of this computer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import reflex as rx
from reflex.event import EventSpec

from tensorant_app import routes
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, page_head, row, stack
from tensorant_app.components.choices import Option, select
from tensorant_app.components.empty import command_line, empty_state
from tensorant_app.components.forms import field, text_input
from tensorant_app.components.tables import Column, cell, data_table, name_cell, table_row
from tensorant_app.components.texts import dash_if_empty, mono, phone_only, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.pages.frame import ENTER, fault, framed
from tensorant_app.pages.lists import Pages, page_foot, pages_of, start_of
from tensorant_app.pages.words import ago, exact, parameters
from tensorant_app.pages.words import size as say_size
from tensorant_app.services import bases, projects
from tensorant_app.services.bases import BaseLine
from tensorant_app.services.projects import ProjectLine
from tensorant_app.state import AppState

FETCH = "tensorant demo"
VIEWERS = "Viewers cannot make projects. Ask an owner of the organization for the role of a member."


@dataclass(frozen=True)
class ProjectRow:
    id: str
    name: str
    base: str
    revision: str
    size: str
    version: str
    runs: str
    last_run: str
    last_run_exact: str
    created: str
    created_exact: str


class ProjectsState(AppState):
    rows: list[ProjectRow] = []
    pages: Pages = Pages()
    is_loading: bool = True

    @rx.event
    async def load(self) -> None:
        start = start_of(self)
        found = await self._see(lambda session, caller: projects.list_projects(session, caller, start=start))
        if found is not None:
            lines, total = found
            self.rows = [_row(line) for line in lines]
            self.pages = pages_of(self, len(lines), total)
            self.is_loading = False


class NewProjectState(AppState):
    options: list[Option] = []
    is_loading: bool = True

    @rx.event
    async def load(self) -> None:
        found = await self._see(lambda session, caller: bases.list_bases(caller))
        if found is not None:
            self.options = [_option(line) for line in found]
            self.is_loading = False

    @rx.event
    async def create(self, form: dict[str, Any]) -> EventSpec | None:
        """The base model is verified before the project is made of it."""
        repo_id, _, revision = str(form.get("base", "")).partition("@")
        facts = await self._see(lambda session, caller: bases.inspect_for(caller, repo_id, revision))
        if facts is None:
            return None
        name = str(form.get("name", ""))
        made = await self._do(lambda session, caller: projects.create_project(session, caller, name, facts))
        return rx.redirect(routes.data(made)) if made else None


def _row(line: ProjectLine) -> ProjectRow:
    project = line.project
    return ProjectRow(
        str(project.id),
        project.name,
        project.base_repo_id,
        project.base_revision[:12],
        f"{parameters(project.base_parameters)} parameters",
        f"v{line.newest_version}" if line.newest_version else "",
        f"{line.runs:,}" if line.runs else "",
        ago(line.last_run_at),
        exact(line.last_run_at),
        ago(project.created_at),
        exact(project.created_at),
    )


def _option(line: BaseLine) -> Option:
    size = f"{parameters(line.parameters)} parameters, {say_size(line.bytes)}"
    return Option(f"{line.repo_id}@{line.revision}", f"{line.repo_id} · {size} · {line.revision[:12]}")


_COLUMNS = [
    Column("Name", phone="lead", skeleton=("120px", "160px")),
    Column("Data", number=True),
    Column("Runs", number=True, phone="aside"),
    Column("Last run", number=True, phone="aside"),
    Column("Created", number=True),
]


def _draw(project: rx.Var[ProjectRow]) -> rx.Component:
    return table_row(
        name_cell(project.name, routes.overview(project.id), rx.fragment(project.base, " · ", project.size)),
        cell(dash_if_empty(project.version), number=True),
        cell(phone_only("runs "), dash_if_empty(project.runs), number=True, phone="aside"),
        cell(
            if_text(project.last_run, when(project.last_run, project.last_run_exact), "–"),
            number=True,
            gray=True,
            phone="aside",
        ),
        cell(when(project.created, project.created_exact), number=True, gray=True),
    )


@rx.page(route=routes.PROJECTS, title="Projects · Tensorant", on_load=[*ENTER, ProjectsState.load])
def projects_page() -> rx.Component:
    new = button("New project", kind="solid", icon_name="plus", href=routes.NEW_PROJECT, command="New project")
    off = action_with_reason(button("New project", kind="solid", icon_name="plus", disabled=True), VIEWERS)
    empty = empty_state(
        "No projects yet",
        "A project is one base model and everything tuned from it: data, runs and evaluations.",
        actions=[if_(AppState.me.may_prepare, button("New project", kind="solid", href=routes.NEW_PROJECT), VIEWERS)],
        command="tensorant demo",
    )
    return framed(
        "projects",
        page_head("Projects", actions=[if_(AppState.me.may_prepare, new, off)]),
        data_table(
            _COLUMNS,
            ProjectsState.rows,
            _draw,
            caption="Projects",
            empty=empty,
            is_loading=ProjectsState.is_loading,
            foot=page_foot("", ProjectsState.pages),
        ),
        crumbs=[Crumb("Projects")],
        project=False,
    )


@rx.page(route=routes.NEW_PROJECT, title="New project · Tensorant", on_load=[*ENTER, NewProjectState.load])
def new_project_page() -> rx.Component:
    return framed(
        "projects",
        page_head("New project", sub=["One base model, and everything tuned from it."]),
        if_(
            NewProjectState.is_loading,
            card("Looking for base models on this computer …"),
            if_(NewProjectState.options.length() > 0, _form(), _no_bases()),
        ),
        crumbs=[Crumb("Projects", routes.PROJECTS), Crumb("New project")],
        project=False,
    )


def _form() -> rx.Component:
    return rx.el.form(
        card(
            stack(
                field(
                    "name",
                    "Name",
                    text_input("name", placeholder="Support triage", required=True, error=fault("name")),
                    hint="People see it everywhere; you can change it later.",
                    error=fault("name"),
                ),
                field(
                    "base",
                    "Base model",
                    select("base", NewProjectState.options),
                    hint="Found on this computer. It cannot be changed later: its tokenizer reads the data.",
                    why="Every file is verified against its manifest before the project is made.",
                ),
                if_(
                    AppState.me.may_prepare,
                    row(button("Create project", kind="solid", submits=True), button("Cancel", href=routes.PROJECTS)),
                    action_with_reason(button("Create project", kind="solid", disabled=True), VIEWERS),
                ),
            )
        ),
        on_submit=NewProjectState.create,
        style={"max_width": "640px"},
    )


def _no_bases() -> rx.Component:
    return card(
        stack(
            callout("There is no base model on this computer yet."),
            rx.el.p(
                "The demo brings a small one (135 M parameters, about 270 MB) and tunes it once. On the host, then reload:"
            ),
            command_line(FETCH),
            rx.el.p("Any other one: put its folder, with its manifest, below the folder ", mono("bases"), "."),
        )
    )
