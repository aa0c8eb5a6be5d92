"""One version of a dataset: checked and frozen as a draft, browsed row by row once it is frozen."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import version_badge
from tensorant_app.components.buttons import action_with_reason, button, download_button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, columns, page_head, row, stack, title_with
from tensorant_app.components.checks import CheckLine, checks
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.links import link
from tensorant_app.components.stats import Fact, Stat, data_list, stats
from tensorant_app.components.texts import mono
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.leakage import leak_sentences
from tensorant_app.domain.versions import VersionState
from tensorant_app.domain.wording import count
from tensorant_app.pages.comparison import ComparisonState, comparison_card
from tensorant_app.pages.data import VIEWERS
from tensorant_app.pages.deletion import DeletionState, delete_button, delete_dialog
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.lists import put
from tensorant_app.pages.rows import RowsState, rows_browser
from tensorant_app.pages.tokens import MarkedRow, refused_card, refused_of, tokens_panel
from tensorant_app.pages.version_words import LOOKS, findings_of
from tensorant_app.pages.words import ago, share, size
from tensorant_app.pages.working import working
from tensorant_app.services import datasets, safety, versions
from tensorant_app.services.datasets import Origin
from tensorant_app.services.safety import SafetyLook
from tensorant_app.services.versions import Report, VersionView
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class VersionFacts:
    id: str = ""
    name: str = ""
    state: str = ""
    problem: str = ""
    content: str = ""
    created: str = ""
    source: str = ""
    source_href: str = ""
    left_out: str = ""
    dataset: str = ""
    divided: str = ""
    seed: str = ""
    percent: int = -1
    """Of the check that goes on; -1 where nothing is said."""
    stored: str = ""
    safety_look: str = ""
    """What is to be said of the safety check beside its findings."""
    may_look_again: bool = False
    leaks: str = ""
    """Rows on two sides, in words."""
    merges: bool = False
    """The system text stands before the first question."""


@dataclass(frozen=True)
class ReportFacts:
    """What the check found; `is_there` is false before it."""

    is_there: bool = False
    rows: str = ""
    train: str = ""
    validation: str = ""
    test: str = ""
    tokens: str = ""
    trained: str = ""
    trained_share: str = ""
    longest: str = ""
    labels: str = ""
    refused: int = 0
    system_refused: str = ""
    """How many rows the template refuses for their system text alone, in words."""


class VersionPageState(AppState):
    facts: VersionFacts = VersionFacts()
    report: ReportFacts = ReportFacts()
    findings: list[CheckLine] = []
    refused: list[MarkedRow] = []
    asks_freeze: bool = False

    @rx.event
    async def load(self):
        text = segment(self, "versions")
        put(self, asks_freeze=False)
        if text != self.facts.id:
            self.facts, self.report, self.findings, self.refused = VersionFacts(), ReportFacts(), [], []
        found = await self._see(_look(text))
        if found is None:
            return None
        # Where the rows are drawn already, another page of them is asked for; else they load when they are drawn.
        more = [RowsState.load] if self.report.is_there else []
        return [*more, *([VersionPageState.watch] if self._show(found) else [])]

    @rx.event(background=True)
    async def watch(self) -> None:
        """Until it is frozen, for its check and its freeze begin and end by themselves."""
        await self._watch(_look(segment(self, "versions")), self._show)

    @rx.event
    async def check(self) -> None:
        text = segment(self, "versions")
        await self._do(lambda session, caller: versions.check_version(session, caller, id_of(text)))
        if not self.error:
            self._show(await self._see(_look(text)))

    @rx.event
    async def cancel_check(self) -> None:
        text = segment(self, "versions")
        await self._do(lambda session, caller: versions.cancel_check(session, caller, id_of(text)))
        if not self.error:
            self._show(await self._see(_look(text)))

    @rx.event
    async def merge_system(self, merges: bool) -> None:
        """Where the system text stands from now on; all rows are read anew."""
        text = segment(self, "versions")
        await self._do(
            lambda session, caller: versions.check_version(session, caller, id_of(text), merge_system=merges)
        )
        if not self.error:
            self._show(await self._see(_look(text)))

    @rx.event
    async def look_again(self):
        """Look through the frozen rows once more, by the safety settings of now."""
        text = segment(self, "versions")
        await self._do(lambda session, caller: safety.check_again(session, caller, id_of(text)))
        return None if self.error else VersionPageState.load

    @rx.event
    async def ask_freeze(self, is_open: bool) -> None:
        found = await self._see(_look(segment(self, "versions")))
        if found is not None:
            self.asks_freeze = is_open

    @rx.event
    async def freeze(self) -> None:
        text = segment(self, "versions")
        await self._do(lambda session, caller: versions.freeze_version(session, caller, id_of(text)))
        if not self.error:
            self.asks_freeze = False
            self._show(await self._see(_look(text)))

    def _show(self, found: tuple[VersionView, Origin] | None) -> bool:
        if found is None:
            return False
        view, origin = found
        put(
            self,
            facts=_facts(segment(self, "projects"), view, origin),
            report=_report(view.report),
            findings=findings_of(view.report) if view.report else [],
            refused=refused_of(view.report) if view.report else [],
        )
        return view.state is not VersionState.FROZEN or view.safety_look is SafetyLook.GOING_ON


def _look(text: str):
    return lambda session, caller: (
        versions.show_version(session, caller, id_of(text)),
        datasets.origin_of(session, caller, id_of(text)),
    )


def _facts(project: str, view: VersionView, origin: Origin) -> VersionFacts:
    shares = origin.split.get("fractions") or origin.split.get("counts") or {}
    divided = " / ".join(
        "the rest" if shares.get(s) is None else f"{shares[s]:,}" for s in ("train", "validation", "test")
    )
    errors, by_hand = origin.counts.with_errors, origin.counts.left_out
    left_out = [f"{count(errors, 'row')} with errors"] * bool(errors) + [f"{count(by_hand, 'row')} by hand"] * bool(
        by_hand
    )
    return VersionFacts(
        str(view.id),
        f"{origin.dataset.name} v{view.number}",
        view.state.value,
        view.problem or "",
        view.content_sha256 or "",
        ago(origin.created_at),
        origin.source.file_name,
        routes.import_(project, origin.source.id),
        ", ".join(left_out),
        origin.dataset.name,
        divided,
        str(origin.split.get("seed", "")),
        -1 if view.percent is None else view.percent,
        size(origin.stored) if origin.stored else "",
        LOOKS[view.safety_look] if view.report else "",
        view.state is VersionState.FROZEN and view.safety_look in (SafetyLook.OUTDATED, SafetyLook.FAILED),
        " ".join(leak_sentences(view.report.repeats)) if view.report else "",
        view.merge_system,
    )


def _report(report: Report | None) -> ReportFacts:
    if report is None:
        return ReportFacts()
    tokens, trained = sum(report.mask.tokens.values()), sum(report.mask.trained_tokens.values())
    rows = report.rows
    labels = ", ".join(report.labels[:8]) + (" …" if len(report.labels) > 8 else "")
    return ReportFacts(
        True,
        f"{sum(rows.values()):,}",
        *(f"{rows.get(split, 0):,}" for split in ("train", "validation", "test")),
        f"{tokens:,}",
        f"{trained:,}",
        share(trained, tokens),
        f"{report.mask.longest:,}",
        labels,
        report.mask.refused_rows,
        count(report.mask.system_refused, "row") if report.mask.system_refused else "",
    )


@rx.page(
    route=routes.VERSION,
    title="Version · Tensorant",
    on_load=[*ENTER, VersionPageState.load, DeletionState.ask(False), ComparisonState.load],
)
def version_page() -> rx.Component:
    facts, report = VersionPageState.facts, VersionPageState.report
    return framed(
        "data",
        page_head(
            title_with(facts.name, version_badge(facts.state)),
            sub=[rx.el.span("Made ", facts.created, " from ", link(facts.source, facts.source_href))],
            actions=[_actions()],
        ),
        stack(
            if_text(
                facts.problem, callout(rx.el.b("It stopped half-way. ", class_name="strong"), facts.problem, tone="red")
            ),
            rx.match(
                facts.state,
                (
                    "checking",
                    working(
                        "Checking",
                        "Rows are divided, looked through for secrets, and read as the base model reads them.",
                        facts.percent,
                        "Of the rows that are read",
                        stop=if_(AppState.me.may_prepare, button("Cancel", on_click=VersionPageState.cancel_check)),
                    ),
                ),
                ("freezing", working("Freezing", "Files are copied under the name of their content.")),
                rx.fragment(),
            ),
            if_text(facts.safety_look, callout(facts.safety_look, _look_again(), tone="amber")),
            if_(report.is_there, _counts()),
            columns(
                [
                    if_(report.is_there, _check_card(), _not_checked()),
                    if_(report.refused > 0, refused_card(VersionPageState.refused)),
                    comparison_card(),
                ],
                [_origin()],
            ),
            if_(report.is_there, stack(tokens_panel(), rows_browser())),
        ),
        _freeze_dialog(),
        delete_dialog(),
        crumbs=[Crumb("Data", routes.data(ProjectState.project.id)), Crumb(facts.name)],
        said=rx.match(facts.state, ("frozen", "The version is frozen."), ("checking", "The check has begun."), ""),
    )


def _actions() -> rx.Component:
    facts, report = VersionPageState.facts, VersionPageState.report
    check = button("Check", kind="solid", on_click=VersionPageState.check)
    again = button("Check again", on_click=VersionPageState.check)
    freeze = button("Freeze", kind="solid", icon_name="lock", on_click=VersionPageState.ask_freeze(True))
    draft = rx.cond(report.is_there, rx.fragment(again, rx.cond(report.refused > 0, rx.fragment(), freeze)), check)
    may = rx.match(
        facts.state,
        ("draft", draft),
        ("frozen", button("Baseline", kind="soft", href=routes.baseline(ProjectState.project.id))),
        rx.fragment(),
    )
    off = if_(facts.state == "draft", action_with_reason(button("Check", kind="solid", disabled=True), VIEWERS))
    return if_(AppState.me.may_prepare, rx.el.div(may, class_name="row"), off)


def _look_again() -> rx.Component:
    again = button("Look through it again", size="sm", on_click=VersionPageState.look_again)
    return if_(AppState.me.may_prepare & VersionPageState.facts.may_look_again, again)


def _counts() -> rx.Component:
    report = VersionPageState.report
    return stats(
        Stat("Rows", report.rows),
        Stat("Training · validation · test", rx.fragment(report.train, " · ", report.validation, " · ", report.test)),
        Stat("Tokens", report.tokens, rx.Var.create("longest row ") + report.longest),
        Stat("Trained tokens", report.trained, report.trained_share),
    )


def _check_card() -> rx.Component:
    labels = VersionPageState.report.labels
    return card(
        checks(VersionPageState.findings),
        if_text(VersionPageState.report.system_refused, _system_text()),
        if_text(labels, rx.el.p("Answers form a closed set: ", mono(labels), class_name="meta")),
        title="Check",
    )


def _system_text() -> rx.Component:
    """The way out where a template has no place for a system text."""
    words = rx.fragment(
        VersionPageState.report.system_refused,
        " fail only because the base model's template has no system role. Their system text can stand before the first "
        "question instead: in this version's masks, baselines, runs and evaluations alike.",
    )
    merge = button(
        "Put it before the first question", kind="soft", size="sm", on_click=VersionPageState.merge_system(True)
    )
    is_draft = VersionPageState.facts.state == "draft"
    return rx.el.div(
        rx.el.p(words, class_name="meta"), if_(AppState.me.may_prepare & is_draft, merge), class_name="stack tight"
    )


def _not_checked() -> rx.Component:
    words = "Not checked yet. The check divides the rows, looks for secrets, and reads every row with the base model's own template."
    return if_(VersionPageState.facts.state == "draft", card(rx.el.p(words), title="Check"))


def _origin() -> rx.Component:
    facts = VersionPageState.facts
    return card(
        data_list(
            Fact("Dataset", facts.dataset),
            Fact("File", link(facts.source, facts.source_href)),
            Fact("Left out", facts.left_out, shown=facts.left_out != ""),
            Fact("Divided", facts.divided, under="training / validation / test"),
            Fact("Seed", facts.seed),
            Fact("System text", "before the first question", under=_unmerge(), shown=facts.merges),
            Fact("Storage", facts.stored, shown=facts.stored != ""),
            Fact("Content", mono(facts.content[:16], small=True), shown=facts.content != ""),
        ),
        if_(VersionPageState.report.is_there, _export()),
        title="Made of",
    )


def _export() -> rx.Component:
    """All rows, as files for other programs."""
    version = VersionPageState.facts.id
    kinds = [("JSONL", "jsonl"), ("Parquet", "parquet")]
    files = (download_button(label, routes.version_rows(version, kind), size="sm") for label, kind in kinds)
    return rx.el.div(row(*files, delete_button()), style={"margin_top": "12px"})


def _unmerge() -> rx.Component:
    """Back to the system role, while it is a draft."""
    back = button("Use the system role", kind="ghost", size="sm", on_click=VersionPageState.merge_system(False))
    return if_(AppState.me.may_prepare & (VersionPageState.facts.state == "draft"), back)


def _freeze_dialog() -> rx.Component:
    report = VersionPageState.report
    return named_dialog(
        "Freeze this version?",
        rx.fragment(
            "Its ",
            report.rows,
            " rows never change again, so that every run and evaluation of it can be compared. It costs nothing.",
            if_text(
                VersionPageState.facts.leaks,
                rx.el.p(rx.el.b("Rows stand on two sides. "), VersionPageState.facts.leaks),
            ),
        ),
        confirm_label="Freeze version",
        is_open=VersionPageState.asks_freeze,
        on_open_change=VersionPageState.ask_freeze,
        on_confirm=VersionPageState.freeze,
        error=AppState.error,
        reasons=AppState.reasons,
        kind="solid",
    )
