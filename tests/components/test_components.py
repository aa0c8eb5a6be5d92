"""Every component draws itself, from plain values and from state variables alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import reflex as rx

from tensorant_app.components import badges, buttons, dialogs, navigation, stats, tables
from tensorant_app.components.sparks import interval, signed, spark
from tensorant_app.pages.kit import kit_page
from tests.components.shown import COMPONENTS, Shown, Values, plain

ASSETS = Path(__file__).parents[2] / "assets"


def rendered(component: rx.Component) -> str:
    return json.dumps(component.render(), default=str)


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_is_drawn_from_plain_values(name: str) -> None:
    drawn = COMPONENTS[name](Values(plain()))

    assert isinstance(drawn, rx.Component)
    assert len(rendered(drawn)) > 20


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_is_drawn_from_state_variables(name: str) -> None:
    drawn = COMPONENTS[name](Values(None))

    assert isinstance(drawn, rx.Component)
    assert len(rendered(drawn)) > 20


def test_the_kit_shows_every_state_of_every_table() -> None:
    page = rendered(kit_page())

    for table in (badges.RUN, badges.MACHINE, badges.EVALUATION, badges.VERSION, badges.IMPORT, badges.DEPLOYMENT):
        for look in table.values():
            assert look.word in page


def test_without_an_open_project_the_rail_leads_into_none() -> None:
    def drawn(project_id: str) -> str:
        groups = navigation.project_groups(project_id, "Acme")
        return rendered(navigation.rail(groups, "projects", None))

    assert "/projects/p/data" in drawn("p")
    assert "/projects//" not in drawn("")
    assert "/projects" in drawn("")


@pytest.mark.parametrize("kind", ["soft", "outline", "ghost", "red", "amber"])
def test_every_button_but_the_solid_one_has_high_contrast(kind: Any) -> None:
    assert "highContrast:true" in rendered(buttons.button("Pause", kind=kind))


def test_a_paid_button_counts_once_and_not_by_enter() -> None:
    dialog = dialogs.paid_dialog(
        "Launch GPU for triage-v7-r64?",
        "1 × L40S",
        price=[stats.Stat("Price", "$0.86", "/h")],
        facts=[],
        confirm_label="Launch GPU · about $3.44 if all time is used",
        is_open=True,
        on_open_change=Shown.turn,
        on_confirm=Shown.press,
    )

    page = rendered(dialog)

    assert "data-once" in page
    assert "data-no-enter" in page
    assert "AlertDialog.Cancel" in page


def test_a_table_keeps_its_roles_where_css_makes_it_a_list() -> None:
    table = tables.data_table(
        [tables.Column("Name", phone="lead")],
        ["triage-v7-r16"],
        lambda name: tables.table_row(tables.name_cell(name, "/projects/1/runs/2")),
        caption="Runs",
    )

    page = rendered(table)

    for role in ("table", "rowgroup", "row", "columnheader", "cell"):
        assert f'role:\\"{role}\\"' in page
    assert 'scope:\\"col\\"' in page


def test_a_spark_is_a_path_of_at_most_twenty_five_points() -> None:
    drawn = spark([float(n) for n in range(1000)])

    assert drawn.path.count("L") <= 24
    assert drawn.words == "from 0 to 999"


def test_one_point_is_no_line() -> None:
    assert spark([1.0]).path == ""


@pytest.mark.parametrize(("low", "high", "tone"), [(3.4, 8.7, "good"), (-1.4, 3.1, ""), (-5.0, -1.0, "bad")])
def test_an_interval_is_coloured_by_its_side_of_the_margin(low: float, high: float, tone: str) -> None:
    assert interval(low, (low + high) / 2, high).tone == tone


def test_a_difference_is_written_with_a_real_minus() -> None:
    assert [signed(-1.0), signed(0.0), signed(6.1)] == ["−1.0", "0", "+6.1"]


def test_the_look_comes_from_this_house_alone() -> None:
    for asset in ("tensorant.css", "console.js", "favicon.svg"):
        text = (ASSETS / asset).read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text


def test_fonts_are_shipped_with_their_licences() -> None:
    names = {path.name for path in (ASSETS / "fonts").iterdir()}

    assert {"inter-latin-wght-normal.woff2", "LICENSE-inter.txt"} <= names
    assert {"jetbrains-mono-latin-wght-normal.woff2", "LICENSE-jetbrains-mono.txt"} <= names


def test_a_figure_needs_no_plotly_until_a_page_is_built() -> None:
    code = (
        "import sys, tensorant_app.components.charts, tensorant_app.components.figures; print('plotly' in sys.modules)"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "False"
