"""Everything that can go wrong, by name: what each fault does, and which ones are waiting to happen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

ANY = "*"


@dataclass(frozen=True, slots=True)
class Kind:
    """`on` is an operation such as `pods.create`, or `machine`, `bill`; `seconds` is the fault's own measure of time."""

    on: str
    effect: str
    seconds: float = 0.0


class Fault(Enum):
    """Each with the operation it usually strikes; `arm(…, on=…)` lets those marked * strike another one."""

    # Requests that the console makes.
    REQUEST_LOST = Kind("pods.create", "* The request never arrives, and no answer comes.")
    ANSWER_LOST = Kind("pods.create", "* The request is carried out, and no answer comes.")
    ERROR_AFTER = Kind("pods.create", "* The request is carried out, and the answer is 500.")
    ERROR = Kind("pods.create", "* Nothing is carried out, and the answer is 500.")
    HTML = Kind("pods.list", "* Nothing is carried out; a gateway answers 502 with a page of HTML.")
    SLOW = Kind("pods.list", "* The answer comes after `seconds`.", 45)
    RATE_LIMITED = Kind("pods.list", "* Refused before any work: 429, try again after `seconds`.", 10)
    FORBIDDEN = Kind("pods.delete", "* The key lacks write access: 403.")
    NO_MONEY = Kind("pods.create", "Refused: 402, the balance is too small.")
    NO_CAPACITY = Kind("pods.create", "Refused: 400 with the sentence that means no capacity.")
    FIELD_REFUSED = Kind(
        "pods.create", "Nothing is carried out: 422, a field that the console sends is not known any more."
    )
    DELETE_REFUSED = Kind("pods.delete", "Nothing is deleted, and the answer is 500.")
    DELETE_DENIED = Kind(
        "pods.delete", "The answer is 404, nobody sees the Pod for `seconds`, then it is there, billed.", 90
    )
    DELETE_LATE = Kind("pods.delete", "The answer is 204; the Pod runs on and is listed for `seconds`.", 120)
    STOP_REFUSED = Kind("pods.action", "The action is refused: 409.")
    SELF_DELETE_REFUSED = Kind("pods.own", "The key inside the Pod may not delete that Pod: 403.")
    NO_EXEC_FORM = Kind("pods.create", "An older front end: entrypoint and cmd are refused with 422.")
    KEY_REVOKED = Kind("account", "Every key of the account is answered 401 for `seconds`; 0 is for ever.")

    # What becomes of the next Pod that is created.
    HIDDEN = Kind("machine", "The Pod is not listed, and 404, until `seconds` after its creation.", 45)
    TWIN = Kind("machine", "Two Pods of the same name come of one create call.")
    ZERO_GPUS = Kind("machine", "The Pod comes up without a GPU, and its trainer fails.")
    OLD_GPU = Kind("machine", "The host's GPU is of 2017, whatever was asked for: compute capability 7.0.")
    IMAGE_PULL = Kind("machine", "The image cannot be pulled: STARTING for ever, the system log says why.")
    NEVER_STARTS = Kind("machine", "PROVISIONING for ever, and no word in the logs.")
    OLD_DRIVER = Kind("machine", "RUNNING for ever without runtime; the system log says that CUDA is too old.")
    NO_RUNTIME = Kind("machine", "RUNNING from the start, `seconds` before the container is up.", 60)
    UNKNOWN_STATUS = Kind(
        "machine", "The status is a word that nobody documented, until `seconds` after creation.", 600
    )
    PRICE_ABOVE_QUOTE = Kind("machine", "The Pod costs 1.55 times what the catalog said.")
    COST_UNTOLD = Kind(
        "machine", "Cost and uptime read 0 until `seconds` after creation; it is billed all the same.", 600
    )
    NO_STOP = Kind("machine", "The Pod's actions never hold stop, and stopping it is refused: 409.")
    EXIT_LOOP = Kind("machine", "When the container's program ends, it is started again, for ever.")
    RESTARTED = Kind("machine", "The container is killed `seconds` after creation and started again.", 240)
    CRASHED = Kind("machine", "The container's program is killed `seconds` after creation: EXITED.", 240)
    HOST_LOST = Kind("machine", "The Pod is gone from every list `seconds` after creation, its work with it.", 240)
    HOST_ERROR = Kind("machine", "The Pod's status is ERROR from `seconds` after creation.", 240)
    DELETED_BY_HAND = Kind("machine", "Somebody deletes the Pod at the provider `seconds` after creation.", 240)

    # The bill.
    BILLING_LATE = Kind("bill", "The next Pod's bill comes `seconds` later than usual.", 6 * 3600)
    BILLING_SPLIT = Kind("bill", "Each hour of the next Pod comes as two records, the second `seconds` later.", 3600)
    BILLING_CORRECTED = Kind("bill", "Each hour of the next Pod reads a tenth too much, for `seconds`.", 2 * 3600)

    # The volume.
    S3_BAD_GATEWAY = Kind("s3.*", "* The answer is 502, nothing is carried out.")
    S3_LOST = Kind("s3.put", "* The request is carried out, and no answer comes.")
    S3_DENIED = Kind("s3.*", "* The answer is 403 AccessDenied for once.")
    S3_SHORT_WRITE = Kind("s3.put", "* The answer is 200; half of the bytes are stored.")
    S3_SHORT_READ = Kind("s3.get", "The answer is 200; half of the bytes come, then the connection ends.")
    S3_VANISHED = Kind("s3.put", "* The answer is 200; nothing is stored.")
    S3_FULL = Kind("s3.put", "* The volume is full: the answer is 507, nothing is stored.")

    @property
    def effect(self) -> str:
        return self.value.effect.removeprefix("* ")

    @property
    def is_machines(self) -> bool:
        return self.value.on in {"machine", "bill"}


@dataclass(slots=True)
class Armed:
    """A fault that waits for its moment."""

    fault: Fault
    on: str
    seconds: float
    name: str | None
    """Only a Pod of this name, or a file key that holds this text; None for any."""
    skip: int
    """So many fitting moments pass before it strikes."""
    times: int
    """So often it strikes; -1 is for ever."""
    fired: int = 0

    def fits(self, operation: str, name: str | None) -> bool:
        is_on = self.on in {ANY, operation} or (self.on.endswith(ANY) and operation.startswith(self.on[:-1]))
        return self.times != 0 and is_on and (self.name is None or _is_meant(self.name, operation, name or ""))


def _is_meant(wanted: str, operation: str, name: str) -> bool:
    return wanted in name if operation.startswith("s3.") else wanted == name


class Faults:
    """The faults that are armed. An unarmed emulator is a provider on its best day."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []
        self.fired: list[tuple[Fault, str, str | None]] = []
        """In order: which, on which operation, at whom."""

    def arm(
        self,
        fault: Fault,
        *,
        on: str | None = None,
        seconds: float | None = None,
        name: str | None = None,
        skip: int = 0,
        times: int = 1,
    ) -> Armed:
        kind = fault.value
        armed = Armed(fault, on or kind.on, kind.seconds if seconds is None else seconds, name, skip, times)
        self.armed.append(armed)
        return armed

    def scatter(self, seed: int, count: int, among: Sequence[Fault] = tuple(Fault)) -> list[Armed]:
        """Arm `count` faults drawn by the seed, each after a few fitting moments."""
        draw = random.Random(seed)
        return [self.arm(draw.choice(among), skip=draw.randrange(3)) for _ in range(count)]

    def take(self, operation: str, name: str | None = None, among: Sequence[Fault] = tuple(Fault)) -> Armed | None:
        """The armed fault that strikes now, used up by one."""
        return next(self.take_all(operation, name, among), None)

    def take_all(
        self, operation: str, name: str | None = None, among: Sequence[Fault] = tuple(Fault)
    ) -> Iterator[Armed]:
        for armed in tuple(self.armed):
            if armed.fault not in among or not armed.fits(operation, name):
                continue
            if armed.skip > 0:
                armed.skip -= 1
                continue
            armed.times -= 1 if armed.times > 0 else 0
            armed.fired += 1
            self.fired.append((armed.fault, operation, name))
            if armed.times == 0:
                self.armed.remove(armed)
            yield armed

    def clear(self) -> None:
        self.armed.clear()
