"""A row as a conversation: bubbles to read, or the tokens with those the model learns from underlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.values import Node, Text, each, if_text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the assistant calls, and its arguments as JSON on several lines."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message; `role` is system, user, assistant or tool."""

    role: str
    who: str
    words: str
    is_trained: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    """What each is called."""
    pictures: list[str] = field(default_factory=list)
    """Addresses of thumbnails, where there are any."""


def bubbles(messages: Sequence[Bubble] | rx.Var[list[Bubble]]) -> rx.Component:
    """Messages as people read them; the ones learned from are tinted and say so."""
    return rx.el.div(*each(messages, _bubble), class_name="bubbles")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of tokens; `kind` is t (trained), sp (special) or empty (read only)."""

    words: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as the template writes it."""

    who: str
    spans: list[Span]


def token_turns(turns: Sequence[Turn] | rx.Var[list[Turn]]) -> rx.Component:
    """Each turn's text in mono, trained stretches underlined: one element per stretch, never per token."""
    return rx.el.div(*each(turns, _turn))


def trained_legend(count: Node) -> rx.Component:
    """The line over the tokens: what the underline means, and how many are trained."""
    sample = rx.el.span(rx.el.span("Aa", class_name="t"), class_name="tk")
    return rx.el.div(
        sample,
        rx.el.span("trained", class_name="meta"),
        rx.el.span("Gray tokens are read, not learned", class_name="meta wide-only"),
        rx.el.span(class_name="grow"),
        count,
        class_name="row",
        style={"padding": "8px 16px", "border_bottom": "1px solid var(--gray-a4)"},
    )


def answer(words: Text) -> rx.Component:
    """An answer of a model, in mono."""
    return rx.el.div(words, class_name="ans")


def marked_answer(spans: Sequence[Span] | rx.Var[list[Span]]) -> rx.Component:
    """An answer with its differing stretches marked: kind `r` wrong, `g` right, empty the same."""
    return rx.el.div(*each(spans, _mark), class_name="ans")


def _bubble(message: Bubble) -> rx.Component:
    if isinstance(message.is_trained, rx.Var):
        note: Node = rx.cond(message.is_trained, " · trained", "")
        words: Text = "bubble " + message.role + rx.cond(message.is_trained, " trained", "")
    else:
        note = " · trained" if message.is_trained else ""
        words = f"bubble {message.role}" + (" trained" if message.is_trained else "")
    return rx.el.div(
        rx.el.span(message.who, note, class_name="who"),
        rx.el.span(*each(message.pictures, _picture), class_name="shots"),
        *each(message.images, _image),
        message.words,
        *each(message.calls, _call),
        class_name=words,
    )


def _call(call: ToolCall) -> rx.Component:
    return rx.el.div(
        rx.el.span(icon("terminal", size=13), call.name, class_name="who"),
        if_text(call.arguments, rx.el.pre(call.arguments, class_name="mono")),
        class_name="call",
    )


def _picture(address: str) -> rx.Component:
    return rx.el.img(src=address, alt="Image of this message", loading="lazy", class_name="shot")


def _image(name: str) -> rx.Component:
    return rx.el.span(icon("image", size=13), name, class_name="pic meta")


def _turn(turn: Turn) -> rx.Component:
    return rx.el.div(
        rx.el.span(turn.who, class_name="who"),
        rx.el.pre(*each(turn.spans, lambda span: rx.el.span(span.words, class_name=span.kind)), class_name="tk"),
        class_name="turn",
    )


def _mark(span: Span) -> rx.Component:
    if isinstance(span.kind, rx.Var):
        return rx.cond(span.kind == "", rx.el.span(span.words), rx.el.mark(span.words, class_name=span.kind))
    return rx.el.mark(span.words, class_name=span.kind) if span.kind else rx.el.span(span.words)
