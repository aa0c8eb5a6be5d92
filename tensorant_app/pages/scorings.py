"""The dialog that starts an evaluation, of a baseline or of a ready adapter: where, at which price, and for how long at most.

A page places `scoring_dialog()` once, begins its on_load with `ScoringState.close`, and calls `ScoringState.ask_base` or
`ScoringState.ask_adapter(run)` from its buttons.
"""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.callouts import callout
from tensorant_app.components.choices import Option, select
from tensorant_app.components.dialogs import paid_dialog
from tensorant_app.components.forms import field, field_grid, text_input
from tensorant_app.components.stats import Fact, Stat
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.domain.leakage import leak_sentences
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.scorings import BLANK
from tensorant_app.pages.frame import ProjectState, segment
from tensorant_app.pages.lists import put
from tensorant_app.pages.run_actions import OF_ANOTHER_PAGE
from tensorant_app.pages.scoring_words import ScoringCard, gpu_options, scoring_card
from tensorant_app.services import datasets, scorings, sessions, versions
from tensorant_app.services.scorings import ScoringView
from tensorant_app.state import AppState, Work, id_of

_PLACES = [Option(RUNPOD, "RunPod"), Option(LOCAL, "This computer")]
_CLEAN = dict.fromkeys(BLANK, "")


class ScoringState(AppState):
    card: ScoringCard = ScoringCard()
    versions: list[Option] = []
    version: str = ""
    """Whose baseline is started; empty for an adapter."""
    leaks: str = ""
    """Which rows of that version stand on two sides."""
    run: str = ""
    """Whose adapter is scored; empty for a baseline."""
    typed: dict[str, str] = dict(BLANK)
    wrong: dict[str, str] = _CLEAN
    gpus: list[Option] = []
    is_open: bool = False

    @rx.event
    async def close(self) -> None:
        """A page is opened: what stood open when the last one was left stays behind."""
        if await self._see(sessions.who_am_i) is not None:
            put(self, is_open=False)

    @rx.event
    async def set_open(self, is_open: bool) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.is_open = is_open

    @rx.event
    async def ask_base(self) -> None:
        """Open it for the newest frozen version; nothing is started by it."""
        project = segment(self, "projects")
        frozen = await self._see(lambda session, caller: datasets.frozen_versions(session, caller, id_of(project)))
        if not frozen:
            return
        if (found := await self._see(self._view("", {}))) is not None:
            options = [
                Option(str(one.id), f"v{one.number} · {one.rows or 0:,} rows · {one.file_name}") for one in frozen
            ]
            self.versions, self.version, self.run = options, options[0].value, ""
            self.leaks = frozen[0].leaks
            self._show(found)

    @rx.event
    async def ask_adapter(self, run: str) -> None:
        if (found := await self._see(self._view(run, {}))) is not None:
            self.versions, self.version, self.run, self.leaks = [], "", run, found.leaks
            self._show(found)

    @rx.event
    async def choose(self, name: str, value: str) -> None:
        """One field; the price and what is wrong follow."""
        if name == "version":
            seen = await self._see(lambda session, caller: versions.show_version(session, caller, id_of(value)))
            if seen is not None:
                self.version = value
                self.leaks = " ".join(leak_sentences(seen.report.repeats)) if seen.report else ""
        elif name in BLANK:
            found = await self._see(self._view(self.run, {**self.typed, name: value}))
            if found is not None:
                self._show(found)

    @rx.event
    async def start(self) -> None:
        """Confirmed, at the price that was shown."""
        version, run, typed = self.version, self.run, dict(self.typed)
        if segment(self, "runs") not in ("", run):
            put(self, is_open=False, error=OF_ANOTHER_PAGE)
            return
        seen = HourlyRate(Money(self.card.price_micros))
        if run:
            await self._do(
                lambda session, caller: scorings.score_adapter(session, caller, id_of(run), typed, shown_price=seen)
            )
        else:
            await self._do(
                lambda session, caller: scorings.score_base(session, caller, id_of(version), typed, shown_price=seen)
            )
        if not self.error:
            self.is_open = False

    def _show(self, found: ScoringView) -> None:
        put(
            self,
            card=scoring_card(found),
            typed=dict(found.typed),
            wrong={**_CLEAN, **found.wrong},
            gpus=gpu_options(found),
            is_open=True,
        )

    def _view(self, run: str, typed: dict[str, str]) -> Work[ScoringView]:
        project = segment(self, "projects")
        if run:
            return lambda session, caller: scorings.show_adapter_scoring(session, caller, id_of(run), typed)
        return lambda session, caller: scorings.show_scoring(session, caller, id_of(project), typed)


def scoring_dialog() -> rx.Component:
    card, is_base = ScoringState.card, ScoringState.run == ""
    return paid_dialog(
        card.title,
        card.lead,
        price=[Stat("Price", card.price, card.per), Stat("Cap (est.)", card.cap), Stat("At most", card.limit)],
        facts=[
            Fact("Base model", ProjectState.project.base, shown=is_base),
            Fact("Machine", card.machine),
            Fact("Billed", card.billed, under=if_(card.is_rented, "The cap is an estimate, not a billing cap.", "")),
            Fact("At the limit", card.at_limit),
            Fact("Queue", card.queue),
        ],
        confirm_label=card.confirm,
        is_open=ScoringState.is_open,
        on_open_change=ScoringState.set_open,
        on_confirm=ScoringState.start,
        disabled=~card.can_confirm,
        error=AppState.error,
        reasons=AppState.reasons,
        extra=rx.el.div(_fields(is_base), class_name="stack", style={"margin_top": "14px"}),
    )


def _fields(is_base: rx.Var[bool]) -> rx.Component:
    card, typed = ScoringState.card, ScoringState.typed
    version = field("version", "Frozen version", _select("version", ScoringState.versions, ScoringState.version))
    place = field("provider", "Where", _select("provider", _PLACES, typed["provider"]))
    gpu = field(
        "gpu_type",
        "GPU",
        _select("gpu_type", ScoringState.gpus, typed["gpu_type"]),
        error=ScoringState.wrong["gpu_type"],
        hint=card.problem,
    )
    return rx.fragment(
        if_(is_base, version),
        if_text(ScoringState.leaks, callout(ScoringState.leaks, tone="amber")),
        if_(is_base & card.is_connected, place),
        if_(card.is_rented, rx.el.div(gpu, field_grid(_limit(), _hours(), columns=2), class_name="stack")),
        if_text(ScoringState.wrong["provider"], rx.el.p(ScoringState.wrong["provider"], class_name="hint e")),
    )


def _select(name: str, options: rx.Var[list[Option]] | list[Option], value: rx.Var[str]) -> rx.Component:
    return select(name, options, value=value, on_change=lambda chosen: ScoringState.choose(name, chosen))


def _limit() -> rx.Component:
    wrong = ScoringState.wrong["price_limit"]
    return field("price_limit", "GPU list-price limit", _number("price_limit", "$/h", wrong), error=wrong)


def _hours() -> rx.Component:
    wrong = ScoringState.wrong["hours"]
    return field("hours", "Maximum runtime", _number("hours", "h", wrong), error=wrong)


def _number(name: str, unit: str, wrong: rx.Var[str]) -> rx.Component:
    return text_input(
        name,
        default_value=ScoringState.typed[name],
        on_blur=lambda value: ScoringState.choose(name, value),
        end=unit,
        input_mode="decimal",
        error=wrong,
    )
