"""What an import can be: a file received, read row by row, and ready or refused."""

from __future__ import annotations

from enum import StrEnum

from tensorant_app.domain.steps import Cause, Lifecycle, step


class ImportState(StrEnum):
    RECEIVING = "receiving"
    CHECKING = "checking"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = ImportState

LIFECYCLE = Lifecycle(
    noun="import",
    states=ImportState,
    steps={
        "receive": step((), _S.RECEIVING, Cause.MEMBER),
        "check": step({_S.RECEIVING}, _S.CHECKING, Cause.MEMBER),
        "done": step({_S.CHECKING}, _S.READY),
        "fail": step({_S.RECEIVING, _S.CHECKING}, _S.FAILED),
        "cancel": step({_S.RECEIVING, _S.CHECKING}, _S.CANCELLED, Cause.MEMBER, Cause.WORKER),
    },
    final=frozenset({_S.READY, _S.FAILED, _S.CANCELLED}),
)
