"""What a rented machine can be – is money being spent? – and what one look at it means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tensorant_app.domain.steps import Cause, Lifecycle, Move, step


class MachineState(StrEnum):
    """Comments say what each means for money; `lifecycle.md` tells the whole story."""

    ASKED = "asked"
    HELD = "held"
    STOPPED = "stopped"
    RELEASING = "releasing"
    RELEASE_FAILED = "release_failed"
    RELEASED = "released"
    ABSENT = "absent"


class Use(StrEnum):
    """Whom a machine works for."""

    RUN = "run"
    EVALUATION = "evaluation"
    DEPLOYMENT = "deployment"

    @property
    def plural(self) -> str:
        return f"{self.value}s"


class MachineReason(StrEnum):
    """Why a machine ended as it did."""

    LOST = "lost"
    DENIED = "denied"
    NO_CAPACITY = "no_capacity"
    NEVER_CAME = "never_came"
    USE_ENDED = "use_ended"
    UNCONFIRMED = "unconfirmed"
    CAME_BACK = "came_back"


_S = MachineState

LIFECYCLE = Lifecycle(
    noun="machine",
    states=MachineState,
    steps={
        "ask": step((), _S.ASKED),
        "appear": step({_S.ASKED}, _S.HELD),
        "catch": step({_S.ASKED}, _S.RELEASING),
        "deny": step({_S.ASKED}, _S.ABSENT),
        "confirm_absent": step({_S.ASKED}, _S.ABSENT, Cause.MEMBER),
        "stop": step({_S.HELD}, _S.STOPPED),
        "release": step({_S.HELD, _S.STOPPED}, _S.RELEASING),
        "lose": step({_S.HELD, _S.STOPPED}, _S.RELEASING),
        "stick": step({_S.RELEASING}, _S.RELEASE_FAILED),
        "retry": step({_S.RELEASE_FAILED}, _S.RELEASING, Cause.MEMBER),
        "confirm": step({_S.RELEASING, _S.RELEASE_FAILED}, _S.RELEASED),
        "reappear": step({_S.RELEASED, _S.ABSENT}, _S.RELEASING),
    },
    final=frozenset({_S.RELEASED, _S.ABSENT}),
)

HOLDS_SLOT = frozenset(MachineState) - LIFECYCLE.final
"""A run keeps its slot until its machine is proved gone."""

NAME_PREFIX = {Use.RUN: "tune", Use.EVALUATION: "eval", Use.DEPLOYMENT: "serve"}


def machine_name(use: Use, subject_id: str, attempt: int) -> str:
    """The one name under which this attempt's machine is asked for, and looked for."""
    name = f"{NAME_PREFIX[use]}-{subject_id}"
    return name if attempt == 1 else f"{name}-{attempt}"


class Presence(StrEnum):
    """What the provider says of machines of one name."""

    PRESENT = "present"
    EXITED = "exited"
    """There, but its process has ended."""
    STOPPED = "stopped"
    GONE = "gone"
    """The provider itself says terminated."""
    ABSENT = "absent"
    """Not listed."""
    UNKNOWN = "unknown"
    """The look failed, or the answer could not be read."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at a machine."""

    at: datetime
    presence: Presence
    provider_ids: tuple[str, ...] = ()
    """Every machine that bears the name; one in ordinary times."""
    provider_status: str = ""
    """The provider's own word, shown as it is."""


@dataclass(frozen=True, slots=True)
class ProofRules:
    """When 'not listed' means 'not there'."""

    grace: timedelta
    """After a create call, not listed proves nothing for so long."""
    looks: int
    span: timedelta
    """So many looks, spread over so much time, must agree."""
    may_ask_again: bool
    """Asking twice is harmless: a lock on the machine's side makes it so."""


RENTED = ProofRules(timedelta(minutes=10), 3, timedelta(seconds=60), may_ask_again=False)
THIS_COMPUTER = ProofRules(timedelta(0), 1, timedelta(0), may_ask_again=True)


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What the row knows before a look."""

    state: MachineState
    ask_sent_at: datetime | None
    """The create call was about to be made then; None: not yet."""
    release_wanted_at: datetime | None
    absent_since: datetime | None
    """The first of the looks in a row that did not find it."""
    absent_looks: int
    has_result: bool
    """The machine's work left its result file."""


def is_proved_absent(facts: MachineFacts, sighting: Sighting, rules: ProofRules) -> bool:
    """Whether this look, with the ones before it, proves that the machine is not there."""
    if sighting.presence is not Presence.ABSENT:
        return False
    since = facts.absent_since or sighting.at
    out_of_grace = facts.ask_sent_at is None or sighting.at - facts.ask_sent_at >= rules.grace
    return out_of_grace and facts.absent_looks + 1 >= rules.looks and sighting.at - since >= rules.span


def decide(facts: MachineFacts, sighting: Sighting, rules: ProofRules) -> Move | None:
    """The step that one look at the machine calls for; None to look again."""
    proved_absent = is_proved_absent(facts, sighting, rules)
    is_one = len(sighting.provider_ids) <= 1
    match facts.state, sighting.presence:
        case _S.ASKED, (Presence.PRESENT | Presence.EXITED | Presence.STOPPED):
            if facts.release_wanted_at is not None:
                return Move("catch", MachineReason.USE_ENDED)
            return Move("appear") if is_one else None
        case _S.ASKED, Presence.ABSENT if proved_absent and rules.may_ask_again and facts.release_wanted_at:
            return Move("deny", MachineReason.NEVER_CAME)
        case ((_S.HELD | _S.STOPPED), Presence.GONE):
            return Move("lose", MachineReason.LOST, "The provider ended the machine.")
        case ((_S.HELD | _S.STOPPED), Presence.ABSENT) if proved_absent:
            return Move("lose", MachineReason.LOST, "The machine is no longer there.")
        case _S.HELD, Presence.EXITED if not facts.has_result:
            return Move("lose", MachineReason.LOST, "The trainer's process ended without a result.")
        case ((_S.RELEASING | _S.RELEASE_FAILED), Presence.GONE):
            return Move("confirm")
        case ((_S.RELEASING | _S.RELEASE_FAILED), Presence.ABSENT) if proved_absent:
            return Move("confirm")
        case ((_S.RELEASED | _S.ABSENT), (Presence.PRESENT | Presence.EXITED | Presence.STOPPED)):
            return Move("reappear", MachineReason.CAME_BACK, "A machine that was proved gone is listed again.")
    return None
