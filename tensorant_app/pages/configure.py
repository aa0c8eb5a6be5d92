"""Configure a run: one page from data to limits, its price and its readiness beside it."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import refusal
from tensorant_app.components.cards import card, columns, fold, page_head, phone_dock, rule
from tensorant_app.components.checks import readiness, readiness_badge
from tensorant_app.components.choices import Option, choice_list, segmented, select, switch
from tensorant_app.components.empty import empty_state
from tensorant_app.components.forms import field, field_grid, section, text_input
from tensorant_app.components.icons import icon
from tensorant_app.components.skeletons import skeleton_page
from tensorant_app.components.stats import Fact, Share, big_number, data_list, memory_bar
from tensorant_app.components.texts import meta, mono
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.form_fields import FormField, Section
from tensorant_app.domain.place_form import FURTHER, NOT_BEFORE
from tensorant_app.domain.run_form import BY_NAME, FIELDS, NAME, PURPOSE
from tensorant_app.domain.run_presets import PRESETS
from tensorant_app.domain.runs import RunPurpose
from tensorant_app.pages.configure_state import ConfigureState as State
from tensorant_app.pages.frame import ENTER, ProjectState, framed
from tensorant_app.pages.gpu_list import GpuListState, rented_list
from tensorant_app.pages.run_actions import READ_ONLY, RunActions
from tensorant_app.state import AppState

_MAY = AppState.me.may_prepare
_IS_TRIAL = State.typed[PURPOSE] == RunPurpose.TRIAL.value
_CENTER = {"text_align": "center", "margin_top": "8px", "display": "block"}


@rx.page(
    route=routes.CONFIGURE,
    title="Configure a run · Tensorant",
    on_load=[*ENTER, RunActions.close, State.load, GpuListState.load],
)
def configure_page() -> rx.Component:
    form = columns([_form()], [_estimate(), _readiness(), _save()], wide_side=True)
    return framed(
        "runs",
        page_head("Configure a run", sub=[State.typed[NAME], _kept()], actions=[_presets()]),
        rx.el.div(refusal(AppState.error, AppState.reasons), style={"margin_bottom": "12px"}),
        if_(State.is_loaded, rx.fragment(form, _dock()), skeleton_page()),
        crumbs=[Crumb("Runs", routes.runs(ProjectState.project.id)), Crumb("Configure a run")],
        shows_refusal=False,
    )


def _kept() -> rx.Component:
    return if_text(
        State.kept,
        rx.el.span(icon("check", size=13), State.kept, class_name="row meta", style={"gap": "4px"}),
    )


def _presets() -> rx.Component:
    options = [Option(preset.value, preset.label) for preset in PRESETS]
    return rx.fragment(
        rx.el.span("Preset", class_name="gray wide-only"),
        segmented(options, State.preset, State.use_preset, label="Preset"),
    )


def _form() -> rx.Component:
    """Not a form element: Enter never saves."""
    return rx.el.div(
        _data(),
        if_(_IS_TRIAL, _trial()),
        section(
            "Model and method",
            field_grid(
                _question("method"),
                rx.el.div(
                    rx.el.div("Base model", class_name="lab"),
                    rx.el.div(State.base, " ", mono(State.revision, small=True), style={"padding_top": "5px"}),
                    rx.el.p("Fixed by the project", class_name="hint"),
                    class_name="f",
                ),
                columns=2,
            ),
        ),
        section(
            "GPU",
            field_grid(_question("provider"), _question("gpu_count"), columns=2),
            rx.el.div(
                rx.cond(
                    GpuListState.is_rented,
                    rented_list(
                        State.typed["gpu_type"], lambda value: State.choose("gpu_type", value), State.wrong["gpu_type"]
                    ),
                    choice_list("gpu", State.gpus, "this-computer", None, label="Training GPU", columns=3),
                ),
                style={"margin_top": "14px"},
            ),
        ),
        section(
            "Hyperparameters",
            rx.el.p(_preset_words(), class_name="meta", style={"margin": "-6px 0 14px"}),
            field_grid(*_questions(Section.HYPERPARAMETERS)),
            fold(
                rx.fragment(
                    "Advanced ", meta("Schedule, warm-up, weight decay, gradient norm, seed, packing, early stop")
                ),
                rx.el.div(field_grid(*_questions(Section.ADVANCED)), style={"margin_top": "12px"}),
            ),
            note=State.changed,
        ),
        section("Limits", field_grid(*_questions(Section.LIMITS))),
    )


def _data() -> rx.Component:
    some = field_grid(
        rx.el.div(_named(), style={"grid_column": "1 / -1"}),
        rx.el.div(_question(PURPOSE), style={"grid_column": "1 / -1"}),
        _select("version", State.versions, "Choose a version"),
        _select("baseline", State.baselines, "Choose a baseline"),
        columns=2,
    )
    none = empty_state(
        "No frozen version yet",
        "A run trains on a frozen dataset version. Import a file, check it and freeze it; the form here is kept.",
        actions=[button("Open Data", kind="solid", href=routes.data(ProjectState.project.id))],
    )
    return section("Data", rx.cond(State.versions.length() > 0, some, none))


def _trial() -> rx.Component:
    words = (
        "The settings below are those of the full run that the trial measures; they are stored beside these bounds and "
        "make the full training draft afterwards."
    )
    return section(
        "Small training trial",
        rx.el.p(words, class_name="meta", style={"margin": "-6px 0 14px"}),
        field_grid(*_questions(Section.TRIAL)),
    )


def _named() -> rx.Component:
    return field(NAME, "Name", _text(NAME), hint="Can be changed later", error=State.wrong[NAME])


def _preset_words() -> rx.Component:
    words = [(preset.value, f"{preset.label}: {preset.sentence}") for preset in PRESETS]
    return rx.fragment(rx.match(State.preset, *words, "Your own settings."))


def _questions(part: Section) -> list[rx.Component]:
    return [_question(one.name) for one in FIELDS if one.section is part]


def _question(name: str) -> rx.Component:
    """A field as its line of the table asks for it."""
    one = BY_NAME[name]
    if one.off_because and not one.is_rented:
        return _locked(one)
    asked = field(
        name,
        one.label,
        _control(one, off=False),
        hint=State.hints[name],
        error=State.wrong[name],
        why=one.why,
        is_default=None if name == "provider" else State.is_default[name],
        on_reset=State.reset_field(name),
    )
    if name == NOT_BEFORE:
        return rx.el.div(asked, style={"grid_column": "span 2"})
    return rx.cond(GpuListState.is_rented, asked, _locked(one)) if one.is_rented else asked


def _locked(one: FormField) -> rx.Component:
    return field(one.name, one.label, _control(one, off=True), hint=one.off_because, why=one.why, locked=True)


def _control(one: FormField, *, off: bool) -> rx.Component:
    if one.is_switch:
        words = if_(State.typed[one.name] == "on", "On", "Off")
        return switch(
            one.name,
            words,
            checked=State.typed[one.name] == "on",
            on_change=None if off else lambda is_on: State.switch_to(one.name, is_on),
            disabled=True if off else ~_MAY,
        )
    if one.name in FURTHER:
        return select(
            one.name,
            GpuListState.further,
            value=State.typed[one.name],
            on_change=lambda value: State.choose(one.name, value),
            disabled=True if off else ~_MAY,
            error=State.wrong[one.name],
            placeholder="None",
        )
    if not one.choices:
        return _text(one.name, unit=one.unit, off=off)
    options = [Option(value, label, disabled=off and value != one.default) for value, label in one.choices]
    if len(options) == 3:
        return select(
            one.name,
            options,
            value=State.typed[one.name],
            on_change=lambda value: State.choose(one.name, value),
            disabled=~_MAY,
        )
    return segmented(
        options, State.typed[one.name], None if off else lambda value: State.choose(one.name, value), label=one.label
    )


def _text(name: str, *, unit: str = "", off: bool = False) -> rx.Component:
    """Uncontrolled, so that nothing typed is ever overwritten; `stamp` makes it anew when something else set it."""
    events: dict[str, Any] = {}
    if not off:
        events = {
            "on_change": lambda value: State.type_in(name, value).debounce(300),
            "on_blur": lambda value: State.leave(name, value),
        }
    box = text_input(
        name,
        default_value=State.typed[name],
        end=unit,
        input_mode="" if name in (NAME, NOT_BEFORE) else "decimal",
        kind="datetime-local" if name == NOT_BEFORE else "text",
        disabled=True if off else ~_MAY,
        error="" if off else State.wrong[name],
        **events,
    )
    return rx.el.div(box, key=f"{name}-{State.stamp}")


def _select(name: str, options: Any, placeholder: str) -> rx.Component:
    control = select(
        name,
        options,
        value=State.typed[name],
        on_change=lambda value: State.choose(name, value),
        disabled=~_MAY,
        error=State.wrong[name],
        placeholder=placeholder,
    )
    return field(name, BY_NAME[name].label, control, hint=State.hints[name], error=State.wrong[name])


def _estimate() -> rx.Component:
    summary, cost = State.summary, GpuListState.cost
    here = big_number("Estimated cost", "$0", unit="on this computer")
    rented = big_number("Estimated cost", cost.expected, under=rx.fragment("At most ", cost.cap, ", estimated"))
    return card(
        rx.cond(GpuListState.is_rented, rented, here),
        rule(),
        data_list(
            Fact("Price", cost.price, shown=GpuListState.is_rented),
            Fact("Cap (est.)", cost.cap, under="If all time is used; not a billing cap", shown=GpuListState.is_rented),
            Fact("Time", summary.time, under=summary.source, shown=~_IS_TRIAL),
            Fact("Full run", summary.time, under=summary.source, shown=_IS_TRIAL),
            Fact("At most", State.typed["maximum_runtime_hours"], unit="h", shown=~_IS_TRIAL),
            Fact("At most", State.typed["trial_minutes"], unit="min", under="the trial", shown=_IS_TRIAL),
        ),
        if_text(summary.sway, rx.el.p(summary.sway, class_name="meta", style={"margin_top": "8px"})),
        rule(),
        data_list(
            Fact("Training rows", summary.rows),
            Fact("Tokens per epoch", summary.tokens),
            Fact("Steps", summary.steps, unit=summary.steps_note),
            Fact("Effective batch", summary.batch),
            Fact("Memory", summary.needed),
        ),
        if_text(
            State.memory.words,
            rx.el.div(
                memory_bar(State.memory.words, [Share(State.memory.words, State.memory.percent)]),
                style={"margin_top": "10px"},
            ),
        ),
    )


def _readiness() -> rx.Component:
    return card(
        readiness(State.open_lines, State.passed, f"{State.passed.length()} passed", State.mend),
        rx.el.p(
            "A passing check is no promise: memory can be taken and an estimate can be wrong a minute later.",
            class_name="meta",
            style={"margin_top": "8px"},
        ),
        title="Readiness",
        right=[readiness_badge(State.to_fix, f"{State.passed.length()} passed")],
    )


def _save() -> rx.Component:
    save = button("Save training run", kind="solid", size="lg", wide=True, on_click=State.save, disabled=~_MAY)
    return rx.el.div(
        save,
        rx.cond(
            _MAY,
            rx.el.p("Saving is free and starts nothing.", class_name="meta", style=_CENTER),
            rx.el.p(READ_ONLY, class_name="meta", style=_CENTER),
        ),
        if_(_MAY, rx.el.div(button("Start over", kind="ghost", size="sm", on_click=State.start_over), style=_CENTER)),
        class_name="wide-only",
    )


def _dock() -> rx.Component:
    words = rx.cond(
        State.to_fix > 0,
        rx.el.div(f"{State.to_fix} to fix", class_name="meta bad"),
        rx.el.div("Ready to start", class_name="meta"),
    )
    return phone_dock(
        rx.el.div(
            rx.el.div(
                rx.cond(GpuListState.is_rented, GpuListState.cost.price, "$0"),
                " · ",
                State.summary.time,
                class_name="strong",
            ),
            words,
            class_name="grow",
        ),
        button("Save training run", kind="solid", on_click=State.save, disabled=~_MAY),
    )
