"""The state of Configure: what is typed is kept at once, counted and checked; nothing typed is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import reflex as rx
from reflex.event import EventSpec

from tensorant_app import routes
from tensorant_app.components.checks import CheckLine
from tensorant_app.components.choices import Choice, Option
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.form_fields import OFF, ON
from tensorant_app.domain.members import Caller
from tensorant_app.domain.place_form import FURTHER
from tensorant_app.domain.run_form import BY_NAME, blank_form, complaints
from tensorant_app.domain.run_presets import GOVERNED, apply_preset, preset_of
from tensorant_app.log import log_failure
from tensorant_app.pages.configure_words import (
    NAMES,
    TRAINER_WAITS,
    Memory,
    Summary,
    address_of,
    changed_words,
    default_marks,
    fill_memory,
    hint_of,
    lines_of,
    rows_words,
    summarize,
)
from tensorant_app.pages.frame import segment
from tensorant_app.pages.gpu_list import GpuListState
from tensorant_app.services import drafts, estimates, gpus, previews, sessions, times
from tensorant_app.services.drafts import BaselineChoice, FormView, VersionChoice
from tensorant_app.services.estimates import Estimate
from tensorant_app.state import AppState, id_of

_log = logging.getLogger(__name__)
_UNREADABLE = CheckLine(
    "refuse", "Choose a version and its baseline, and mend the fields marked red; then it is checked."
)


class ConfigureState(AppState):
    typed: dict[str, str] = blank_form()
    wrong: dict[str, str] = dict.fromkeys(NAMES, "")
    is_default: dict[str, bool] = default_marks(blank_form())
    hints: dict[str, str] = dict.fromkeys(NAMES, "")
    preset: str = ""
    changed: str = ""
    versions: list[Option] = []
    baselines: list[Option] = []
    base: str = ""
    revision: str = ""
    gpus: list[Choice] = []
    kept: str = ""
    """When the form was last kept."""
    is_loaded: bool = False
    stamp: int = 0
    """Another number makes every text box anew, with what stands in `typed`."""
    summary: Summary = Summary()
    memory: Memory = Memory()
    open_lines: list[CheckLine] = []
    passed: list[CheckLine] = []
    to_fix: int = 0
    is_checking: bool = False
    _versions: tuple[VersionChoice, ...] = ()
    _baselines: tuple[BaselineChoice, ...] = ()
    _unsaved: dict[str, str] = {}
    """Typed while it could not be kept, such as after the session ended; the next keep takes it along."""
    _is_saved: bool = False
    """It is done with: what was typed last may be told after it, and must not begin the next one."""
    _turn: int = 0
    """Of the checks: an older look never overwrites a newer one."""
    _needed: int = 0
    _free: int = 0
    """Bytes of memory, as the last look found."""

    @rx.event
    async def load(self) -> EventSpec | None:
        project = segment(self, "projects")

        def look(session: Any, caller: Caller) -> tuple[FormView, Estimate | None]:
            view = drafts.show_form(session, caller, id_of(project))
            return view, estimates.estimate_form(session, caller, id_of(project), view.typed)

        found = await self._see(look)
        if found is None:
            return None
        view, estimate = found
        self._versions, self._baselines = tuple(view.versions), tuple(view.baselines)
        self.base, self.revision = view.base_repo_id, view.base_revision[:12]
        self.kept = f"Form kept {_clock(view.kept_at)}" if view.kept_at else ""
        self.versions = [Option(str(choice.id), choice.label) for choice in view.versions]
        self.is_loaded, self._is_saved = True, False
        self._show(dict(view.typed), estimate, anew=True)
        return ConfigureState.check

    @rx.event
    async def type_in(self, name: str, value: str) -> list[EventSpec] | None:
        """While typing: kept and counted; what is wrong is said when the field is left."""
        return await self._take({name: value}, anew=False)

    @rx.event
    async def leave(self, name: str, value: str) -> list[EventSpec] | None:
        """The field is left: now say what is wrong in it."""
        if await self._see(sessions.who_am_i) is None or not self.me.may_prepare or name not in self.wrong:
            return None
        found = complaints({**self.typed, name: value}, times.now())
        self.wrong = {**self.wrong, name: found.get(name, "")}
        return None if self.typed.get(name) == value else await self._take({name: value}, anew=False)

    @rx.event
    async def choose(self, name: str, value: str) -> list[EventSpec] | None:
        """One of few answers; another version brings its own baseline along, and another place its own GPU."""
        changes = {name: value}
        if name == "provider":
            changes |= dict.fromkeys(("gpu_type", *FURTHER), "")
        if name == "version":
            changes["baseline"] = next((str(b.id) for b in self._baselines if str(b.version_id) == value), "")
        return await self._take(changes, anew=False)

    @rx.event
    async def switch_to(self, name: str, is_on: bool) -> list[EventSpec] | None:
        return await self._take({name: ON if is_on else OFF}, anew=False)

    @rx.event
    async def reset_field(self, name: str) -> list[EventSpec] | None:
        field = BY_NAME.get(name)
        return await self._take({name: field.default} if field else {}, anew=True)

    @rx.event
    async def use_preset(self, value: str) -> list[EventSpec] | None:
        preset = apply_preset(self.typed, value) if value in ("check", "balanced", "thorough") else {}
        return await self._take({name: preset[name] for name in GOVERNED if name in preset}, anew=True)

    @rx.event
    async def mend(self, key: str) -> EventSpec | list[EventSpec] | None:
        """What a failed check's button does: another page, or a value in a field."""
        place, _, page = key.partition("place:")
        if page and not place:
            if await self._see(sessions.who_am_i) is None:
                return None
            project = segment(self, "projects")
            return rx.redirect(address_of(page, project))
        name, _, value = key.partition("=")
        return await self._take({name: value} if name in BY_NAME else {}, anew=True)

    @rx.event
    async def start_over(self) -> EventSpec | None:
        """Forget what was typed."""
        project = segment(self, "projects")
        await self._do(lambda session, caller: drafts.forget_form(session, caller, id_of(project)))
        return None if self.error else await ConfigureState.load.fn(self)  # type: ignore[no-any-return]

    @rx.event
    async def save(self) -> EventSpec | None:
        """A draft, whatever the checks say; launching is what they hold back."""
        project, typed = segment(self, "projects"), {**self.typed, **self._unsaved}
        made = await self._do(lambda session, caller: drafts.save_form(session, caller, id_of(project), typed))
        if made is None:
            if self.fields:
                self.wrong = {name: self.fields.get(name, "") for name in NAMES}
            return None
        self._is_saved = True
        return rx.redirect(routes.run(project, made))

    @rx.event(background=True)
    async def check(self) -> None:
        """The readiness checks of what is typed, with no transaction open; the slow one last."""
        async with self:
            project, typed = segment(self, "projects"), dict(self.typed)
            self._turn += 1
            turn = self._turn
            found = await self._see(lambda s, caller: (previews.read_form(s, caller, id_of(project), typed),))
            if found is None:
                return
            subject = found[0]
            if subject is None:
                self._show_lines([_UNREADABLE], [])
                return
            self.is_checking = True
        try:
            look = await asyncio.to_thread(previews.look, subject)
            opened, passed = lines_of(look.findings, subject)
            async with self:
                if turn != self._turn:
                    return
                self.is_checking = subject.rented is None
                self._show_lines([*opened, TRAINER_WAITS] if self.is_checking else opened, passed)
                self._free = look.free
                self._show_memory()
            if subject.rented is not None:
                return
            trainer = await asyncio.to_thread(previews.look_at_trainer)
            opened, passed = lines_of([*look.findings, trainer], subject)
            async with self:
                if turn == self._turn:
                    self.is_checking = False
                    self._show_lines(opened, passed)
        except TensorantError as error:
            async with self:
                self._show_refusal(error)
        except Exception:
            failure = log_failure(_log, "The readiness checks of a form failed")
            async with self:
                self._show_lines([CheckLine("refuse", f"The checks stopped. It has been logged as {failure}.")], [])

    async def _take(self, changes: Mapping[str, str], *, anew: bool) -> list[EventSpec] | None:
        """Keep the form with these changes; refused, it stays in the browser and goes along with the next one."""
        if self._is_saved:
            return None
        project = segment(self, "projects")
        typed = {**self.typed, **self._unsaved, **{name: text for name, text in changes.items() if name in NAMES}}

        def keep(session: Any, caller: Caller) -> tuple[datetime, Estimate | None, dict[str, str]]:
            whole = gpus.complete_form(session, caller, id_of(project), typed)
            at = drafts.keep_form(session, caller, id_of(project), whole)
            return at, estimates.estimate_form(session, caller, id_of(project), whole), whole

        done = await self._do(keep)
        if done is None:
            self._unsaved = {**self._unsaved, **changes}
            return None
        self._unsaved = {}
        self.kept = f"Form kept {_clock(done[0])}"
        self._show(done[2], done[1], anew=anew)
        return [GpuListState.show, ConfigureState.check]

    def _show(self, typed: dict[str, str], estimate: Estimate | None, *, anew: bool) -> None:
        self.typed, self.is_default = typed, default_marks(typed)
        self.preset, self.changed = preset_of(typed), changed_words(typed)
        found = complaints(typed, times.now())
        # What is typed is judged when the field is left; a choice is whole at once, and depends on the others.
        shown = {name for name in NAMES if anew or self.wrong.get(name) or name in FURTHER}
        self.wrong = {name: found.get(name, "") if name in shown else "" for name in NAMES}
        self.stamp += int(anew)
        version = next((choice for choice in self._versions if str(choice.id) == typed["version"]), None)
        own = [b for b in self._baselines if str(b.version_id) == typed["version"]]
        self.baselines = [Option(str(choice.id), choice.label) for choice in own]
        self.hints = {
            name: hint_of(name, self.is_default.get(name, True)) if name in BY_NAME else "" for name in NAMES
        } | {
            "version": rows_words(version),
            "baseline": "Your adapter is compared with it" if own else "None is completed for this version yet",
        }
        self.summary = summarize(estimate)
        self._needed = estimate.memory if estimate else 0
        self._show_memory()

    def _show_memory(self) -> None:
        self.memory = fill_memory(self._needed, self._free, is_rented=self.typed["provider"] == RUNPOD)
        beside = (self.memory.free, "$0/h", self.summary.time)
        self.gpus = [Choice("this-computer", "This computer", "", beside)]

    def _show_lines(self, opened: Sequence[CheckLine], passed: Sequence[CheckLine]) -> None:
        self.open_lines, self.passed = list(opened), list(passed)
        self.to_fix = sum(line.verdict == "refuse" for line in opened)


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"
