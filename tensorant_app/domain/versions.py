"""What a dataset version can be: edited, checked, and frozen for good."""

from __future__ import annotations

from enum import StrEnum

from tensorant_app.domain.steps import Cause, Lifecycle, step

KEYS = "keys.parquet"
"""Beside the rows of the splits: what every row is told from others by."""


class VersionState(StrEnum):
    DRAFT = "draft"
    CHECKING = "checking"
    FREEZING = "freezing"
    FROZEN = "frozen"


_S = VersionState

LIFECYCLE = Lifecycle(
    noun="version",
    states=VersionState,
    steps={
        "create": step((), _S.DRAFT, Cause.MEMBER),
        "check": step({_S.DRAFT}, _S.CHECKING, Cause.MEMBER),
        "back": step({_S.CHECKING}, _S.DRAFT),
        "cancel": step({_S.CHECKING}, _S.DRAFT, Cause.MEMBER),
        "freeze": step({_S.DRAFT}, _S.FREEZING, Cause.MEMBER),
        "done": step({_S.FREEZING}, _S.FROZEN),
    },
    final=frozenset({_S.FROZEN}),
)
