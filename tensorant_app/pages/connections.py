"""Outside accounts of the organization: what is connected, whether it works, what it costs, and how many machines may run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import connection_badge
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, columns, page_head, row, rule, stack
from tensorant_app.components.choices import Option, select
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.forms import field, text_input
from tensorant_app.components.stats import Fact, big_number, data_list
from tensorant_app.components.texts import meta, mono, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_
from tensorant_app.domain.connections import CREDENTIALS, ConnectionKind, Credential
from tensorant_app.pages.connection_words import NO_ACCOUNT, AccountCard, card_of
from tensorant_app.pages.frame import ENTER, fault, framed
from tensorant_app.pages.lists import put
from tensorant_app.pages.strays import StraysState, strays_card, terminate_dialog
from tensorant_app.services import connecting, sessions, slots
from tensorant_app.services.connecting import ConnectionView
from tensorant_app.services.slots import SlotsView
from tensorant_app.state import AppState, id_of

_COMPUTE, _STORAGE = ConnectionKind.RUNPOD_COMPUTE, ConnectionKind.RUNPOD_STORAGE
_OWNER_ONLY = "Only an owner of the organization connects accounts."
_ADMIN_ONLY = "Only an admin or an owner changes this."
_LEAD = {
    _COMPUTE: "Runs and evaluations rent their GPUs in your own RunPod account, and RunPod bills you for them.",
    _STORAGE: "A network volume carries data to the machines and keeps checkpoints and adapters when they are gone.",
}
_NOTE = {
    _COMPUTE: "Make a key for Tensorant alone, so that you can revoke it without breaking anything else.",
    _STORAGE: "RunPod cannot encrypt network volumes: whoever has access to the account can read what lies there.",
}


class ConnectionsState(AppState):
    compute: AccountCard = NO_ACCOUNT
    storage: AccountCard = NO_ACCOUNT
    edits: str = ""
    """The kind whose form is open."""
    asks_remove: str = ""
    """The id of the connection that somebody wants to remove."""
    removes: str = ""
    """What that is called."""
    slots: int = 0
    held: int = 0
    edits_slots: bool = False
    stamp: int = 0
    """Another number makes the form's boxes anew: what was pasted is gone from them."""
    is_loading: bool = True

    @rx.event
    async def load(self):
        found = await self._see(_look)
        if found is None:
            return None
        put(self, edits="", asks_remove="", edits_slots=False)
        self._show(found)
        return ConnectionsState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        """A check takes a few seconds, and its words appear by themselves."""
        await self._watch(_look, self._show, every=2.0)

    @rx.event
    async def edit(self, kind: str) -> None:
        """Open the form of one kind; nothing closes it."""
        if await self._see(sessions.who_am_i) is not None:
            self.edits, self.stamp = kind, self.stamp + 1

    @rx.event
    async def save_compute(self, form: dict[str, Any]) -> None:
        await self._save(_COMPUTE, form)

    @rx.event
    async def save_storage(self, form: dict[str, Any]) -> None:
        await self._save(_STORAGE, form)

    @rx.event
    async def recheck(self, connection: str) -> None:
        await self._do(lambda session, caller: connecting.recheck_connection(session, caller, id_of(connection)))
        await self._look_again()

    @rx.event
    async def ask_remove(self, connection: str, label: str) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.asks_remove, self.removes = connection, label

    @rx.event
    async def remove(self) -> None:
        connection = self.asks_remove
        await self._do(lambda session, caller: connecting.remove_connection(session, caller, id_of(connection)))
        if not self.error:
            self.asks_remove = ""
        await self._look_again()

    @rx.event
    async def ask_slots(self, is_open: bool) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.edits_slots = is_open

    @rx.event
    async def save_slots(self, form: dict[str, Any]) -> None:
        typed = str(form.get("slots", ""))
        await self._do(lambda session, caller: slots.set_slots(session, caller, typed))
        if not self.error:
            self.edits_slots = False
        await self._look_again()

    async def _save(self, kind: ConnectionKind, form: dict[str, Any]) -> None:
        """The secrets go from the event straight to the service: no variable of the page ever holds them."""
        typed = {one.name: str(form.get(one.name, "")) for one in CREDENTIALS[kind]}
        await self._do(lambda session, caller: connecting.save_connection(session, caller, kind, typed))
        if not self.error:
            self.edits, self.stamp = "", self.stamp + 1
        await self._look_again()

    async def _look_again(self) -> None:
        """What is true now, without taking the refusal away that the person should read."""
        if not self.error and (found := await self._see(_look)) is not None:
            self._show(found)

    def _show(self, found: tuple[Sequence[ConnectionView], SlotsView]) -> bool:
        views, taken = {view.kind: view for view in found[0]}, found[1]
        put(
            self,
            compute=card_of(views.get(_COMPUTE)),
            storage=card_of(views.get(_STORAGE)),
            slots=taken.slots,
            held=len(taken.held_by),
            is_loading=False,
        )
        return True


def _look(session: Any, caller: Any) -> tuple[Sequence[ConnectionView], SlotsView]:
    return connecting.list_connections(session, caller), slots.show_slots(session, caller)


@rx.page(
    route=routes.CONNECTIONS, title="Connections · Tensorant", on_load=[*ENTER, ConnectionsState.load, StraysState.load]
)
def connections_page() -> rx.Component:
    state = ConnectionsState
    return framed(
        "connections",
        page_head("Connections", sub=[meta("Accounts outside of this installation, sealed and checked")]),
        if_(
            ~state.is_loading,
            columns(
                [
                    strays_card(),
                    _account(_COMPUTE, state.compute, state.save_compute),
                    _account(_STORAGE, state.storage, state.save_storage),
                ],
                [_slots(), _here()],
            ),
        ),
        _removal(),
        terminate_dialog(),
        crumbs=[Crumb("Connections")],
        project=False,
        said=rx.cond(state.compute.is_there, state.compute.sentence, ""),
    )


def _account(kind: ConnectionKind, account: rx.Var[AccountCard], on_submit: Any) -> rx.Component:
    is_editing = ConnectionsState.edits == kind.value
    head = [if_(account.is_there, connection_badge(account.state))]
    known = if_(account.is_there, _known(kind, account), rx.el.p(_LEAD[kind]))
    connect = button(
        f"Connect {kind.label}",
        kind="solid" if kind is _COMPUTE else "soft",
        on_click=ConnectionsState.edit(kind.value),
    )
    acts = if_(account.is_there, _acts(kind, account), row(connect))
    may = if_(AppState.me.may_own, if_(is_editing, _form(kind, account, on_submit), acts), meta(_OWNER_ONLY))
    return card(stack(known, may), title=kind.label, beside_title=head)


def _known(kind: ConnectionKind, account: rx.Var[AccountCard]) -> rx.Component:
    facts = [
        Fact("Key" if kind is _COMPUTE else "S3 secret key", mono(f"…{account.last_four}"), under=account.changed),
        Fact("Checked", when(account.checked, account.checked_exact), shown=account.checked != ""),
    ]
    if kind is _STORAGE:
        facts = [
            Fact("Data center", account.data_center),
            Fact("Network volume", mono(account.volume_id), under=account.volume),
            Fact("Costs a month (est.)", account.month, under=account.month_note, shown=account.month != ""),
            *facts,
        ]
    used = Fact("In use by", account.used_by, shown=account.used_by != "")
    bad = callout(account.sentence, tone="red")
    words = if_(account.state == "failed", bad, rx.el.p(account.sentence))
    return rx.el.div(words, rx.el.div(data_list(*facts, used, full=True), style={"margin_top": "10px"}))


def _acts(kind: ConnectionKind, account: rx.Var[AccountCard]) -> rx.Component:
    return row(
        button("Replace", size="sm", on_click=ConnectionsState.edit(kind.value)),
        button("Check again", size="sm", on_click=ConnectionsState.recheck(account.id)),
        button("Remove", size="sm", kind="ghost", on_click=ConnectionsState.ask_remove(account.id, kind.label)),
        wraps=True,
    )


def _form(kind: ConnectionKind, account: rx.Var[AccountCard], on_submit: Any) -> rx.Component:
    boxes = [_box(one, account) for one in CREDENTIALS[kind]]
    return rx.el.form(
        stack(
            *boxes,
            rx.el.p(_NOTE[kind], class_name="meta"),
            row(
                button("Save and check", kind="solid", submits=True),
                button("Cancel", on_click=ConnectionsState.edit("")),
            ),
        ),
        key=f"{kind.value}-{ConnectionsState.stamp}",
        on_submit=on_submit,
        auto_complete="off",
    )


def _box(one: Credential, account: rx.Var[AccountCard]) -> rx.Component:
    """Secrets are typed, never shown: a box of one is empty whatever is stored."""
    error = fault(one.name)
    if one.choices:
        options = [Option(choice, choice) for choice in one.choices]
        control = select(one.name, options, error=error, placeholder="Choose a data center")
        return field(one.name, one.label, control, hint=one.hint, error=error)
    kept = None if one.is_secret else account.volume_id
    control = text_input(
        one.name,
        kind="password" if one.is_secret else "text",
        default_value=kept,
        autocomplete="new-password" if one.is_secret else "off",
        error=error,
    )
    return field(one.name, one.label, control, hint=one.hint, error=error)


def _slots() -> rx.Component:
    state = ConnectionsState
    words = f"{state.held} of {state.slots}"
    under = "Each run with a machine that is not proved released holds one. Beyond them a launch waits as Queued."
    box = field(
        "slots",
        "Run slots",
        text_input("slots", default_value=state.slots.to_string(), input_mode="numeric", error=fault("slots")),
        hint="1 – 100",
        error=fault("slots"),
    )
    acts = row(
        button("Save", kind="solid", size="sm", submits=True),
        button("Cancel", size="sm", on_click=state.ask_slots(False)),
    )
    form = rx.el.form(stack(box, acts), on_submit=state.save_slots)
    change = button("Change", size="sm", on_click=state.ask_slots(True))
    may = if_(AppState.me.may_administer, if_(state.edits_slots, form, change), meta(_ADMIN_ONLY))
    return card(big_number("Run slots in use", words, under=under), rule(), may)


def _here() -> rx.Component:
    return card(
        rx.el.p("Runs can always be trained on this computer as well: free, and nothing needs to be connected."),
        title="This computer",
    )


def _removal() -> rx.Component:
    state = ConnectionsState
    return named_dialog(
        f"Remove {state.removes}?",
        "Tensorant forgets the key. Runs that are paused or need recovery cannot reach their files until the same account "
        "is connected again. RunPod itself changes nothing: revoke the key there, and a network volume goes on costing.",
        confirm_label="Remove",
        cancel_label="Keep it",
        is_open=state.asks_remove != "",
        on_open_change=lambda is_open: state.ask_remove("", ""),
        on_confirm=state.remove,
        error=AppState.error,
        reasons=AppState.reasons,
    )
