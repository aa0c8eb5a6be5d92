"""The form of every state machine: a table of verbs, each with its sources, one target and who may cause it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from tensorant_app.domain.errors import Conflict

S = TypeVar("S", bound=StrEnum)


class Cause(StrEnum):
    """Who moved it."""

    MEMBER = "member"
    OPERATOR = "operator"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Step(Generic[S]):
    """One allowed change. Without sources it is how a row begins."""

    sources: frozenset[S]
    target: S
    causes: frozenset[Cause]


@dataclass(frozen=True, slots=True)
class Move:
    """A step decided by looking: the verb, why (a word of the reason enum) and the sentence for people."""

    verb: str
    reason: str | None = None
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle(Generic[S]):
    """One state machine, whole."""

    noun: str
    states: type[S]
    steps: Mapping[str, Step[S]]
    final: frozenset[S]
    """States that end it, whatever rare verb may still lead out of them."""

    def can_step(self, state: S, verb: str, cause: Cause) -> bool:
        step = self.steps[verb]
        return state in step.sources and cause in step.causes

    def next_state(self, state: S, verb: str, cause: Cause) -> S:
        """Where `verb` leads, or `Conflict` where the table does not allow it."""
        step = self.steps[verb]
        if state not in step.sources or cause not in step.causes:
            raise Conflict(
                f"This {self.noun} is {state.value.replace('_', ' ')}: it cannot {verb.replace('_', ' ')} now."
            )
        return step.target


def step(sources: Iterable[S], target: S, *causes: Cause) -> Step[S]:
    """A step caused by the worker where nobody is named."""
    return Step(frozenset(sources), target, frozenset(causes or {Cause.WORKER}))
