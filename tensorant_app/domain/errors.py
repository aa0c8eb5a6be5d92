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
    pass


class Denied(ProviderError):
    """The provider refused for certain; `is_capacity` where another try may succeed later."""

    def __init__(self, message: str, *, is_capacity: bool = False) -> None:
        super().__init__(message)
        self.is_capacity = is_capacity


class Unknown(ProviderError):
    pass


class AuthFailed(ProviderError):
    pass


class Unsupported(ProviderError):
    pass


class Transient(ProviderError):
    pass
