"""What a rented machine can be – is money being spent? – and what one look at it means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tensorant_app.domain.money import HourlyRate
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
    NOT_STARTED = "not_started"
    """Nothing of the trainer was heard within the provisioning time, or the provider says that it failed."""
    RESTARTED = "restarted"
    TOO_DEAR = "too_dear"
    CONFIRMED_ABSENT = "confirmed_absent"
    DENIED = "denied"
    NO_CAPACITY = "no_capacity"
    BUSY = "busy"
    """Refused because of too many requests, or before anything was sent."""
    NEVER_CAME = "never_came"
    USE_ENDED = "use_ended"
    UNCONFIRMED = "unconfirmed"
    CAME_BACK = "came_back"


BROKEN = frozenset({MachineReason.NOT_STARTED, MachineReason.RESTARTED, MachineReason.TOO_DEAR})
"""Given back because of itself, not because its work was done."""

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
    ERROR = "error"
    """There, and the provider says that it failed."""
    GONE = "gone"
    """The provider itself says terminated."""
    ABSENT = "absent"
    """Not listed."""
    UNKNOWN = "unknown"
    """The look failed, or the answer could not be read."""


LISTED = frozenset({Presence.PRESENT, Presence.EXITED, Presence.STOPPED, Presence.ERROR})
"""There is a machine, whatever it does."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at a machine."""

    at: datetime
    presence: Presence
    provider_ids: tuple[str, ...] = ()
    """Every machine that bears the name; one in ordinary times."""
    provider_status: str = ""
    """The provider's own word, shown as it is."""
    rate: HourlyRate | None = None
    """What the provider says that it bills, for the whole machine."""
    twins_rate: HourlyRate | None = None
    """What the others of its name cost on top; None where there are none, or where they do not say."""
    uptime: float | None = None
    """Seconds since the container began; None where it is not up, or nobody knows."""


@dataclass(frozen=True, slots=True)
class ProofRules:
    """When 'not listed' means 'not there', and how it is found out."""

    grace: timedelta
    """After a create call, not listed proves nothing for so long."""
    looks: int
    span: timedelta
    """So many looks, spread over so much time, must agree."""
    may_ask_again: bool
    """Asking twice is harmless: a lock on the machine's side makes it so."""
    provisioning: timedelta | None = None
    """A machine whose trainer was not heard by then is given back."""

    @property
    def by_account(self) -> bool:
        """Looked at with all others of its account, in one call; not each by itself."""
        return not self.may_ask_again


RENTED = ProofRules(
    timedelta(minutes=10), 3, timedelta(seconds=60), may_ask_again=False, provisioning=timedelta(minutes=20)
)
THIS_COMPUTER = ProofRules(timedelta(0), 1, timedelta(0), may_ask_again=True)

LATE = timedelta(minutes=10)
"""So long after its deadline a machine is released whatever it says."""
RUNS_AGAIN = timedelta(hours=1)
"""So long a stopped machine that somebody started again may run: enough to fetch a file from its disk."""
OVERDUE = timedelta(seconds=60)
"""An asked machine that has not answered by then is shown as Checking launch."""
MOST_BOOTS = 2
"""A third start means that the machine kills its process again and again."""


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
    held_at: datetime | None = None
    has_started: bool = False
    """The trainer was heard."""
    boots: int = 1
    """How often its container began, as far as anybody knows."""
    rate_limit: HourlyRate | None = None
    deadline: datetime | None = None
    stop_wanted: bool = False
    """Its disk is to be kept."""
    was_known: bool = False
    """The provider's own list showed it, or a delete call found it."""
    cannot_start: bool = False
    """The provider's log says that its container never will."""


def is_proved_absent(facts: MachineFacts, sighting: Sighting, rules: ProofRules) -> bool:
    """Whether this look, with the ones before it, proves that the machine is not there."""
    if sighting.presence is not Presence.ABSENT:
        return False
    since = facts.absent_since or sighting.at
    out_of_grace = facts.ask_sent_at is None or sighting.at - facts.ask_sent_at >= rules.grace
    # One that was there, and whose delete call was made, cannot be one that the list does not show yet.
    out_of_grace |= facts.was_known and facts.state in {_S.RELEASING, _S.RELEASE_FAILED}
    return out_of_grace and facts.absent_looks + 1 >= rules.looks and sighting.at - since >= rules.span


def is_checking(state: MachineState, ask_sent_at: datetime | None, answer_lost: bool, now: datetime) -> bool:
    """Whether nobody knows if the machine exists: its answer was lost, or is overdue."""
    if state is not MachineState.ASKED or ask_sent_at is None:
        return False
    return answer_lost or now - ask_sent_at > OVERDUE


def why_not_confirmed(facts: MachineFacts, rules: ProofRules, now: datetime) -> str | None:
    """Why a person cannot confirm yet that it was never rented; None where they can."""
    if facts.state is not MachineState.ASKED or facts.ask_sent_at is None:
        return "Only a launch that is being checked can be confirmed absent."
    if facts.has_started and facts.release_wanted_at is None:
        return "Its trainer was heard: it is there and works, whatever the provider's list says."
    if now - facts.ask_sent_at < rules.grace:
        minutes = -(-(facts.ask_sent_at + rules.grace - now) // timedelta(minutes=1))
        return f"The provider may still show it. Wait {minutes} more minute{'s' if minutes > 1 else ''}."
    if facts.absent_since is None or facts.absent_looks < rules.looks:
        return "The provider lists it, or could not be asked. Look again when a newer look did not find it."
    if now - facts.absent_since < rules.span:
        return "It was listed less than a minute ago. Wait for another look."
    return None


def decide(facts: MachineFacts, sighting: Sighting, rules: ProofRules, now: datetime | None = None) -> Move | None:
    """The step that one look at the machine calls for; None to look again. `now` where the look was a while ago."""
    proved_absent = is_proved_absent(facts, sighting, rules)
    match facts.state:
        case _S.ASKED:
            return _asked(facts, sighting, rules, proved_absent=proved_absent)
        case _S.HELD:
            return _seen_held(facts, sighting, proved_absent=proved_absent) or _on_its_own(
                facts, sighting, rules, now or sighting.at
            )
        case _S.STOPPED if proved_absent or sighting.presence is Presence.GONE:
            return Move("lose", MachineReason.LOST, "The stopped machine is no longer there.")
        case _S.RELEASING | _S.RELEASE_FAILED if proved_absent or sighting.presence is Presence.GONE:
            return Move("confirm")
        case _S.RELEASED | _S.ABSENT if sighting.presence in LISTED:
            return Move("reappear", MachineReason.CAME_BACK, "A machine that was proved gone is listed again.")
    return None


def _asked(facts: MachineFacts, sighting: Sighting, rules: ProofRules, *, proved_absent: bool) -> Move | None:
    """Adopted where exactly one bears the name; with several, nobody chooses between them."""
    if sighting.presence in LISTED:
        if facts.release_wanted_at is not None:
            return Move("catch", MachineReason.USE_ENDED)
        return Move("appear") if len(sighting.provider_ids) <= 1 else None
    if proved_absent and rules.may_ask_again and facts.release_wanted_at:
        return Move("deny", MachineReason.NEVER_CAME)
    if proved_absent and rules.by_account and (facts.has_started or facts.was_known):
        # Its trainer was heard, or several of its name were listed: it was there, and its bill is to be read.
        if facts.release_wanted_at is not None:
            return Move("catch", MachineReason.USE_ENDED)
        return Move("catch", MachineReason.LOST, "The machine is no longer there.")
    return None


def _seen_held(facts: MachineFacts, sighting: Sighting, *, proved_absent: bool) -> Move | None:
    match sighting.presence:
        case Presence.GONE:
            return Move("lose", MachineReason.LOST, "The provider ended the machine.")
        case Presence.ABSENT if proved_absent:
            return Move("lose", MachineReason.LOST, "The machine is no longer there.")
        case Presence.STOPPED if facts.stop_wanted:
            return Move("stop")
        case Presence.EXITED | Presence.STOPPED if not facts.has_result:
            return Move("lose", MachineReason.LOST, "The trainer's process ended without a result.")
        case Presence.ERROR if not facts.has_result:
            if facts.has_started:
                return Move("lose", MachineReason.LOST, "The provider says that the machine failed.")
            return Move("release", MachineReason.NOT_STARTED, "The provider could not start the machine.")
    return None


def _on_its_own(facts: MachineFacts, sighting: Sighting, rules: ProofRules, now: datetime) -> Move | None:
    """What is wrong with a machine that is there."""
    if facts.deadline is not None and now >= facts.deadline + LATE:
        return Move("release", MachineReason.USE_ENDED, "It was long past its deadline.")
    if facts.has_result:
        return None
    if facts.rate_limit is not None and sighting.rate is not None and sighting.rate > facts.rate_limit:
        sentence = (
            f"The provider bills {sighting.rate}, above the limit of {facts.rate_limit}. It was released at once."
        )
        return Move("release", MachineReason.TOO_DEAR, sentence)
    if facts.boots > MOST_BOOTS:
        sentence = f"Its container was started {facts.boots} times without reaching a result."
        return Move("release", MachineReason.RESTARTED, sentence)
    if facts.cannot_start and not facts.has_started:
        sentence = "The host's driver is too old for the trainer's image, so its container never starts."
        return Move("release", MachineReason.NOT_STARTED, sentence)
    if is_overdue_to_start(facts, rules, now):
        assert rules.provisioning is not None
        minutes = rules.provisioning // timedelta(minutes=1)
        return Move("release", MachineReason.NOT_STARTED, f"The trainer did not start within {minutes} minutes.")
    return None


def cannot_start(log: str) -> bool:
    """Whether the provider's log says so: a host with an old driver is called running, is billed, and tries for ever."""
    return "unsatisfied condition: cuda" in log.lower()


def is_overdue_to_start(facts: MachineFacts, rules: ProofRules, now: datetime) -> bool:
    if rules.provisioning is None or facts.has_started or facts.held_at is None:
        return False
    return facts.state is _S.HELD and now - facts.held_at >= rules.provisioning
