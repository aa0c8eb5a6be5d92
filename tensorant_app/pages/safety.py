"""What the organization adds to the safety check: a card of the settings, for its owners and admins."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app.components.buttons import button
from tensorant_app.components.cards import card, row, stack
from tensorant_app.components.forms import field, text_area, text_input
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_
from tensorant_app.domain.safety_settings import ClassifierKind, SafetySettings
from tensorant_app.pages.frame import fault
from tensorant_app.services import safety
from tensorant_app.state import AppState

_ASKED = {
    ClassifierKind.NONE: "No classifier is asked.",
    ClassifierKind.COMMAND: "A program of this computer is asked, which the operator chose.",
    ClassifierKind.HTTP: "The address below is asked.",
}


class SafetyState(AppState):
    """Each box is made anew when what is kept has changed, and only then: what was typed meanwhile stays."""

    words: str = ""
    url: str = ""
    seconds: str = ""
    asked: str = ""
    token: str = ""
    """What is said of the classifier's token; never the token."""
    header: str = ""
    is_address: bool = False
    saved: str = ""
    """Which form was kept last."""
    tokens: int = 0
    """How many were kept: another number empties the box."""

    @rx.event
    async def load(self) -> None:
        found = await self._see(safety.show_settings)
        if found is not None:
            self._show(found, "")

    @rx.event
    async def save_words(self, form: dict[str, Any]) -> None:
        text = str(form.get("words", ""))
        await self._keep(lambda session, caller: safety.set_words(session, caller, text), "words")

    @rx.event
    async def save_address(self, form: dict[str, Any]) -> None:
        url, seconds = str(form.get("url", "")), str(form.get("seconds", ""))
        await self._keep(lambda session, caller: safety.set_address(session, caller, url, seconds), "address")

    @rx.event
    async def save_token(self, form: dict[str, Any]) -> None:
        """It goes from the event straight to the service: no variable of the page ever holds it."""
        token, header = str(form.get("token", "")), str(form.get("header", ""))
        await self._keep(lambda session, caller: safety.set_token(session, caller, token, header), "token")

    async def _keep(self, act, saved: str) -> None:
        await self._do(act)
        if not self.error:
            found = await self._see(safety.show_settings)
            if found is not None:
                self._show(found, saved)

    def _show(self, found: SafetySettings, saved: str) -> None:
        self.words, self.url, self.seconds = "\n".join(found.words), found.url, str(found.seconds)
        self.asked, self.saved, self.tokens = _ASKED[found.kind], saved, self.tokens + (saved == "token")
        self.is_address, self.header = found.kind is ClassifierKind.HTTP, found.header
        self.token = found.token_words


def safety_card() -> rx.Component:
    words = (
        "Secrets and payment cards are always refused. What you add here is refused as well: a run on such rows ends "
        "Refused, before any machine is asked for. Frozen versions are looked through again on their page."
    )
    return card(
        stack(rx.el.p(words, class_name="meta"), _words(), _address(), if_(SafetyState.is_address, _token())),
        title="Safety check",
        right=[meta("of the whole organization")],
    )


def _words() -> rx.Component:
    off = ~AppState.me.may_administer
    area = text_area("words", default_value=SafetyState.words, rows=4, disabled=off, error=fault("words"))
    box = field(
        "words", "Words that no row may hold", area, hint="One a line; whole words, any case", error=fault("words")
    )
    form = stack(rx.el.div(box, key=SafetyState.words), _save("Save words", "words"))
    return rx.el.form(form, on_submit=SafetyState.save_words)


def _address() -> rx.Component:
    off = ~AppState.me.may_administer
    url = text_input("url", default_value=SafetyState.url, disabled=off, error=fault("url"))
    seconds = text_input("seconds", default_value=SafetyState.seconds, end="s", disabled=off, error=fault("seconds"))
    why = (
        "Rows are sent there, 50 at a time, except those refused already. Where it fails, the rows count as not checked, "
        "and no run starts on them."
    )
    hint = "An https address outside this network; empty asks none"
    form = stack(
        rx.el.div(field("url", "Classifier", url, hint=hint, error=fault("url")), key=SafetyState.url),
        rx.el.div(field("seconds", "Time for all rows", seconds, error=fault("seconds")), key=SafetyState.seconds),
        meta(SafetyState.asked, " ", why, block=True),
        _save("Save classifier", "address"),
    )
    return rx.el.form(form, on_submit=SafetyState.save_address)


def _token() -> rx.Component:
    off = ~AppState.me.may_administer
    token = text_input("token", kind="password", autocomplete="new-password", disabled=off, error=fault("token"))
    header = text_input("header", default_value=SafetyState.header, disabled=off, error=fault("header"))
    hint = "Sent with every call; sealed here and never shown again. Empty sends none."
    bears = field("header", "Header that bears it", header, hint="Empty: Authorization: Bearer", error=fault("header"))
    form = stack(
        rx.el.div(
            field("token", "Token of the classifier", token, hint=hint, error=fault("token")), key=SafetyState.tokens
        ),
        rx.el.div(bears, key=SafetyState.header),
        meta(SafetyState.token, block=True),
        _save("Save token", "token"),
    )
    return rx.el.form(form, on_submit=SafetyState.save_token)


def _save(label: str, name: str) -> rx.Component:
    save = row(button(label, size="sm", submits=True), if_(SafetyState.saved == name, meta("Saved")))
    return if_(AppState.me.may_administer, save, meta("Only an admin or an owner changes this."))
