"""What a project is called, the base model it stands on, and who works in it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.cards import card, columns, page_head, row, stack
from tensorant_app.components.forms import field, text_area, text_input
from tensorant_app.components.stats import Fact, data_list
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import meta, mono
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_
from tensorant_app.domain.money import MICROS_PER_DOLLAR
from tensorant_app.pages.frame import ENTER, ProjectState, fault, framed, segment
from tensorant_app.pages.safety import SafetyState, safety_card
from tensorant_app.pages.words import exact, parameters
from tensorant_app.services import organizations, projects
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class MemberRow:
    name: str
    email: str
    role: str


class ProjectSettingsState(AppState):
    members: list[MemberRow] = []
    size: str = ""
    created: str = ""
    is_saved: bool = False
    prompts: str = ""
    """The pinned ones, one a line, as they were kept last."""
    has_pinned: bool = False
    budget: str = ""
    """Dollars, as one would type them; empty for none."""
    taken: str = ""

    @rx.event
    async def load(self) -> None:
        text = segment(self, "projects")
        view = await self._see(lambda session, caller: projects.show_project(session, caller, id_of(text)))
        members = await self._see(organizations.list_members) if view else None
        if view is not None and members is not None:
            self.size, self.created = parameters(view.base_parameters), exact(view.created_at)
            self.members = [MemberRow(one.name, one.email, one.role.value.capitalize()) for one in members]
            self.is_saved = self.has_pinned = False
            self.prompts = "\n".join(view.sample_prompts)
            await self._load_budget(text)

    @rx.event
    async def pin(self, form: dict[str, Any]) -> None:
        """Keep the prompts that every run answers at its checkpoints."""
        text, prompts = segment(self, "projects"), str(form.get("prompts", ""))
        await self._do(lambda session, caller: projects.pin_prompts(session, caller, id_of(text), prompts))
        if not self.error:
            self.prompts, self.has_pinned = prompts, True

    async def _load_budget(self, text: str) -> None:
        found = await self._see(lambda session, caller: projects.show_budget(session, caller, id_of(text)))
        if found is not None:
            self.budget = f"{Decimal(found.limit.micros) / MICROS_PER_DOLLAR:,.2f}" if found.limit else ""
            self.taken = str(found.taken)

    @rx.event
    async def save_budget(self, form: dict[str, Any]) -> None:
        text, typed = segment(self, "projects"), str(form.get("budget", ""))
        await self._do(lambda session, caller: projects.set_budget(session, caller, id_of(text), typed))
        if not self.error:
            await self._load_budget(text)

    @rx.event
    async def rename(self, form: dict[str, Any]):
        text, name = segment(self, "projects"), str(form.get("name", ""))
        await self._do(lambda session, caller: projects.rename_project(session, caller, id_of(text), name))
        if not self.error:
            self.is_saved = True
            return ProjectState.open
        return None


_COLUMNS = [Column("Name", phone="lead"), Column("E-mail"), Column("Role", phone="aside")]


def _draw(member: rx.Var[MemberRow]) -> rx.Component:
    return table_row(
        cell(rx.el.b(member.name, class_name="strong"), phone="lead"),
        cell(member.email, gray=True),
        cell(member.role, phone="aside"),
    )


@rx.page(
    route=routes.PROJECT_SETTINGS,
    title="Settings · Tensorant",
    on_load=[*ENTER, ProjectSettingsState.load, SafetyState.load],
)
def project_settings_page() -> rx.Component:
    members = data_table(_COLUMNS, ProjectSettingsState.members, _draw, caption="Members", in_card=False, tall=False)
    return framed(
        "settings",
        page_head("Settings"),
        columns(
            [
                _name(),
                _prompts(),
                safety_card(),
                card(members, title="Members", padded=False, right=[meta("of the whole organization")]),
            ],
            [_base(), _budget(), _deleting()],
        ),
        crumbs=[Crumb("Settings")],
        said=rx.cond(ProjectSettingsState.is_saved, "The name is saved.", ""),
    )


def _name() -> rx.Component:
    box = field(
        "name",
        "Project name",
        text_input(
            "name",
            default_value=ProjectState.project.name,
            disabled=~AppState.me.may_prepare,
            required=True,
            error=fault("name"),
        ),
        hint="At most 80 characters.",
        error=fault("name"),
    )
    reason = "Viewers cannot rename a project. Ask a member of the organization."
    save = row(button("Save", kind="solid", submits=True), if_(ProjectSettingsState.is_saved, meta("Saved")))
    off = action_with_reason(button("Save", kind="solid", disabled=True), reason)
    form = rx.el.form(stack(box, if_(AppState.me.may_prepare, save, off)), on_submit=ProjectSettingsState.rename)
    return card(form, title="Name")


def _prompts() -> rx.Component:
    off = ~AppState.me.may_prepare
    state = ProjectSettingsState
    area = text_area("prompts", default_value=state.prompts, rows=5, disabled=off, error=fault("prompts"))
    box = field(
        "prompts",
        "One prompt a line",
        rx.el.div(area, key=state.prompts),
        hint="At most 8, each at most 2,000 characters",
        error=fault("prompts"),
    )
    words = "Each run answers them at its checkpoints, so that you can read on its page how the answers change."
    save = row(button("Pin prompts", kind="solid", submits=True), if_(state.has_pinned, meta("Pinned")))
    reason = "Viewers cannot pin prompts. Ask a member of the organization."
    switched_off = action_with_reason(button("Pin prompts", kind="solid", disabled=True), reason)
    form = rx.el.form(
        stack(rx.el.p(words, class_name="meta"), box, if_(AppState.me.may_prepare, save, switched_off)),
        on_submit=state.pin,
    )
    return card(form, title="Sample prompts")


def _base() -> rx.Component:
    facts = ProjectState.project
    return card(
        data_list(
            Fact("Model", facts.base, under=mono(facts.revision, small=True)),
            Fact("Parameters", ProjectSettingsState.size),
            Fact("Project since", ProjectSettingsState.created),
        ),
        title="Base model",
    )


def _budget() -> rx.Component:
    state = ProjectSettingsState
    box = field(
        "budget",
        "Monthly budget",
        text_input(
            "budget",
            default_value=state.budget,
            end="$",
            input_mode="decimal",
            disabled=~AppState.me.may_administer,
            error=fault("budget"),
        ),
        hint="At least $1; empty for no limit. A launch whose Cap (est.) does not fit is refused.",
        error=fault("budget"),
    )
    save = row(button("Save", size="sm", submits=True))
    form = rx.el.form(
        stack(
            rx.el.div(box, key=state.budget),
            if_(AppState.me.may_administer, save, meta("Only an admin or an owner changes this.")),
        ),
        on_submit=state.save_budget,
    )
    taken = data_list(Fact("Taken this month (est.)", state.taken, under="Live machines count until their deadline"))
    return card(stack(form, taken), title="Budget")


def _deleting() -> rx.Component:
    return card(
        rx.el.p(
            "A project cannot be deleted yet. What takes room in it can: its datasets, files and versions, on the data page."
        ),
        title="Deleting",
    )
