"""What stands around every page: rail, top bar and banner drawn from state, and the project of the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import reflex as rx
from reflex.event import EventSpec

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import banner, error_panel, refusal
from tensorant_app.components.navigation import ProjectLink, organization_groups, project_groups, project_switcher
from tensorant_app.components.shell import page_frame
from tensorant_app.components.skeletons import skeleton_page
from tensorant_app.components.topbar import Crumb, Viewer, running_cost
from tensorant_app.components.values import Node, Text, each, given, if_, if_text, pick
from tensorant_app.domain.machines import Use
from tensorant_app.pages.lists import put
from tensorant_app.pages.machine_actions import MachineActions
from tensorant_app.pages.words import ago
from tensorant_app.services import projects
from tensorant_app.services.projects import ProjectView, Surroundings, Unreleased
from tensorant_app.state import AppState, Work, id_of

_OUTSIDE = ("", "new")
"""What follows /projects/ where no project is open."""
_LOOK_SECONDS = 5.0


_MOST_ALARMS = 3


@dataclass(frozen=True)
class Alarm:
    """One amber line over every page: a machine that may still be paid for although nobody wants it."""

    machine: str
    words: str
    href: str
    has_failed: bool


@dataclass(frozen=True)
class ProjectFacts:
    """The project of the address; its id is empty until it has been looked up."""

    id: str = ""
    name: str = ""
    base: str = ""
    revision: str = ""
    parameters: int = 0


class ProjectState(AppState):
    project: ProjectFacts = ProjectFacts()
    projects: list[ProjectLink] = []
    runs: str = ""
    viewer: Viewer = Viewer()
    running: str = ""
    rate: str = "$0"
    alarms: list[Alarm] = []
    """Empty while every machine is accounted for."""
    refused_key: str = ""
    is_there: bool = False
    """Looked up and found. Where it is not and an error stands, the address leads nowhere."""

    @rx.event
    async def open(self) -> EventSpec | None:
        """After `AppState.enter` in every page's on_load: what stands around the page, and its project."""
        text, me = segment(self, "projects"), self.me
        if text not in _OUTSIDE and text != self.project.id:
            self.is_there = False
        put(
            self,
            viewer=Viewer(me.name, _initials(me.name or me.email), me.email, me.organization, me.role.capitalize()),
        )
        found = await self._see(_look_around(text))
        if found is None:
            put(self, project=ProjectFacts(), is_there=False)
            return None
        self._show(found)
        return ProjectState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        """What runs and what is not released changes while a page is open."""
        await self._watch(_look_around(segment(self, "projects")), self._show, every=_LOOK_SECONDS)

    def _show(self, found: Surroundings) -> bool:
        put(
            self,
            is_there=True,
            project=_facts(found.project) if found.project else ProjectFacts(),
            projects=[ProjectLink(str(one.id), one.name, one.base_repo_id) for one in found.projects],
            runs=str(found.runs) if found.runs else "",
            running=f"{found.running} running" if found.running else "",
            rate=str(found.rate) if found.rate else "$0",
            alarms=_alarms(found.unreleased),
            refused_key=found.refused_key or "",
        )
        return True


ENTER = (AppState.enter, ProjectState.open)
"""Begins every page's on_load; what follows may rely on `me` and `ProjectState.project`."""


def _look_around(text: str) -> Work[Surroundings]:
    return lambda session, caller: projects.look_around(session, caller, None if text in _OUTSIDE else id_of(text))


def framed(
    here: str,
    *children: Node,
    crumbs: Sequence[Crumb] = (),
    project: bool = True,
    said: Text = "",
    full_width: bool = False,
    shows_refusal: bool = True,
) -> rx.Component:
    """A whole page. `here`: the place to mark in the rail. `crumbs`: after the project's own, the last without address.

    `shows_refusal`: what the last event was refused for stands above the page; off where dialogs show it themselves.
    """
    groups = (
        project_groups(ProjectState.project.id, AppState.me.organization, runs=ProjectState.runs)
        if project
        else organization_groups(AppState.me.organization)
    )
    own = (
        [
            Crumb(
                if_text(ProjectState.project.name, ProjectState.project.name, "Project"),
                routes.overview(ProjectState.project.id),
            )
        ]
        if project
        else []
    )
    refused = rx.el.div(refusal(AppState.error, AppState.reasons), class_name="above-page")
    above = [refused] if shows_refusal else []
    return page_frame(
        if_(
            ProjectState.is_there, rx.fragment(*above, *children), if_text(AppState.error, _missing(), skeleton_page())
        ),
        here=here,
        groups=groups,
        crumbs=[_safe(crumb) for crumb in (*own, *crumbs)] if project else crumbs,
        viewer=ProjectState.viewer,
        switcher=_switcher("projects-menu"),
        phone_switcher=_switcher("projects-menu-phone"),
        running=running_cost(ProjectState.running, ProjectState.rate),
        banner=_banners(),
        said=said,
        full_width=full_width,
        is_alive=rx.State.is_hydrated,
    )


def fault(name: str) -> rx.Var[str]:
    """What the last event found wrong in this field of a form; empty where nothing."""
    return rx.cond(AppState.fields.contains(name), AppState.fields[name], "")


def segment(state: AppState, after: str) -> str:
    """The part of the open page's address that follows `after`: the project's id after `projects`; or nothing."""
    parts = urlsplit(str(state.router.url)).path.strip("/").split("/")
    return parts[parts.index(after) + 1] if after in parts[:-1] else ""


def _switcher(menu: str) -> rx.Component:
    facts = ProjectState.project
    return project_switcher(facts.name, facts.base, ProjectState.projects, facts.id, menu=menu)


def _safe(crumb: Crumb) -> Crumb:
    """Where no project is open there is no way into one."""
    if not given(crumb.href):
        return crumb
    return Crumb(crumb.label, pick(ProjectState.project.id != "", crumb.href, routes.PROJECTS))


def _missing() -> rx.Component:
    return error_panel(
        AppState.error,
        rx.el.p("It may have been deleted, or it belongs to another organization than the one you are signed in to."),
        actions=[button("All projects", kind="solid", href=routes.PROJECTS)],
    )


def _facts(view: ProjectView) -> ProjectFacts:
    return ProjectFacts(str(view.id), view.name, view.base_repo_id, view.base_revision, view.base_parameters)


def _banners() -> rx.Component:
    """One for each machine that is not accounted for, and one while the account's key is refused."""
    key = banner(
        ProjectState.refused_key,
        " Machines there can neither be seen nor released until the key is replaced.",
        actions=[button("Connections", kind="amber", size="sm", href=routes.CONNECTIONS)],
    )
    return rx.fragment(*each(ProjectState.alarms, _alarm), if_text(ProjectState.refused_key, key))


def _alarm(alarm: rx.Var[Alarm]) -> rx.Component:
    retry = button(
        "Retry cleanup",
        kind="amber",
        size="sm",
        on_click=MachineActions.retry_cleanup(alarm.machine),
        disabled=~AppState.me.may_spend,
    )
    return banner(
        alarm.words,
        actions=[
            if_text(alarm.href, button("Open", kind="amber", size="sm", href=alarm.href)),
            if_(alarm.has_failed, retry),
        ],
    )


def _alarms(machines: Sequence[Unreleased]) -> list[Alarm]:
    """The first few, each on its own line; how many more there are stands in the last."""
    found = [_alarm_of(machine) for machine in machines[:_MOST_ALARMS]]
    if more := len(machines) - len(found):
        are = "1 more machine is" if more == 1 else f"{more} more machines are"
        found.append(Alarm("", f"{are} not confirmed released.", "", has_failed=False))
    return found


def _alarm_of(machine: Unreleased) -> Alarm:
    words = (
        f"The machine {machine.name} ({machine.gpu_type}) is not confirmed released, asked {ago(machine.since)}, and "
        "may still be billed. Tensorant keeps asking until the release is proved."
    )
    return Alarm(str(machine.id), words, _place_of(machine), machine.has_failed)


def _place_of(machine: Unreleased) -> str:
    if machine.project_id is None:
        return ""
    build = routes.run if machine.use is Use.RUN else routes.scorecard
    return build(machine.project_id, machine.subject_id)


def _initials(name: str) -> str:
    words = name.replace("@", " ").split()
    return "".join(word[0] for word in words[:2]).upper()
