"""Every way a use case says no. Messages are whole sentences that name the thing and say what to do next.

TensorantError
├── Invalid        a value is wrong: field → message
├── Forbidden      the caller's role may not do it
│   └── SignedOut    nobody is signed in (any more)
├── NotFound       no such thing here (also for other organizations' ids)
├── Conflict       the thing is in another state by now
├── Refused        checked and refused, with every reason
└── ProviderError  the outside said no, or nothing
    ├── Denied       definite: it did not happen
    ├── Unknown      it may have happened; never repeat, look
    ├── AuthFailed   the credentials do not work
    ├── Unsupported  this provider cannot do it
    └── Transient    reading failed; ask again later
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum


class TensorantError(Exception):
    """The root: `message` is shown to people as written."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Invalid(TensorantError):
    """One or more fields hold a wrong value."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(fields.values()))
        self.fields = dict(fields)


class Forbidden(TensorantError):
    pass


class SignedOut(Forbidden):
    pass


class NotFound(TensorantError):
    pass


class Conflict(TensorantError):
    pass


class Refused(TensorantError):
    """Everything was looked at, and these are all the reasons."""

    def __init__(self, message: str, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"- {reason}" for reason in self.reasons)])


class ProviderError(TensorantError):
    """`request_id` is what the provider's support asks for; `retry_after` is how long it wants to be left alone."""

    def __init__(self, message: str, *, request_id: str | None = None, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id
        self.retry_after = retry_after


class DenialReason(StrEnum):
    """Why nothing was made. Each is definite: no machine exists and nothing is billed."""

    CAPACITY = "capacity"
    """No such machine is free now."""
    MONEY = "money"
    """The account's balance does not cover it."""
    PRICE = "price"
    """It costs more than the limit."""
    INVALID = "invalid"
    """The request breaks a rule; asking the same again is useless."""
    QUOTA = "quota"
    """Too many requests, or too many machines for this account."""
    UNREACHABLE = "unreachable"
    """No connection came about, so nothing was sent."""


_PASSING = frozenset({DenialReason.CAPACITY, DenialReason.QUOTA, DenialReason.UNREACHABLE})


class Denied(ProviderError):
    """The provider refused for certain."""

    def __init__(
        self,
        message: str,
        reason: DenialReason = DenialReason.INVALID,
        *,
        request_id: str | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id, retry_after=retry_after)
        self.reason = reason

    @property
    def is_capacity(self) -> bool:
        return self.reason is DenialReason.CAPACITY

    @property
    def may_pass(self) -> bool:
        """Whether asking for another machine later can succeed with nothing changed."""
        return self.reason in _PASSING


class Unknown(ProviderError):
    pass


class AuthFailed(ProviderError):
    pass


class Unsupported(ProviderError):
    pass


class Transient(ProviderError):
    pass
