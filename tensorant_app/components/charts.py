"""Loss and metric charts: Plotly's small build, loaded when a chart is on the page; a sentence and a table beside each.

A figure (`components.figures`) is data without colours. They come from the theme by the order of the traces: training, smoothed, validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.values import Flag, Node, Text, each, if_
from tensorant_app.theme import FONT, INK, Ink

CONFIG = {"displayModeBar": False, "responsive": True, "doubleClick": "reset"}


def chart_card(
    title: Text,
    figure: Any,
    sentence: Node,
    *,
    legend: Sequence[tuple[str, str]] = (),
    controls: Sequence[rx.Component] = (),
    table: rx.Component | None = None,
    has_points: Flag = True,
    waiting: Text = "First step in a few minutes.",
    height: int = 260,
    right: Node = "",
) -> rx.Component:
    """`legend`: pairs of word and line ("r" raw, "" smoothed, "v" validation, "d" dashed). `has_points=False` keeps
    the room and says when the first point comes. `right`: the metric's last value, for small charts."""
    keys = [rx.el.span(rx.el.i(class_name=look), word) for word, look in legend]
    head = rx.el.div(
        rx.el.h2(title, class_name="h3"),
        rx.el.div(*keys, class_name="leg wide-only"),
        rx.el.div(*controls, right, class_name="r num strong"),
        class_name="ch" if height > 200 else "ch bare",
    )
    wait = rx.el.div(
        rx.el.span(waiting, class_name="gray"),
        style={"height": f"{height}px", "display": "grid", "place_items": "center"},
    )
    under = rx.el.div(
        rx.el.div(*keys, class_name="leg on-phone-flex") if keys else rx.fragment(),
        rx.el.p(sentence, class_name="meta"),
        class_name="cb t",
        style={"padding_top": "4px"},
    )
    folded = rx.fragment()
    if table is not None:
        summary = rx.el.summary(icon("table_2", size=13), "As table")
        folded = rx.el.div(
            rx.el.details(
                summary, rx.el.div(table, tab_index=0, role="region", aria_label=title), class_name="as-table"
            ),
            style={"padding": "0 16px 12px"},
        )
    drawn = rx.el.div(plot(figure, title, height=height), class_name="chart-box")
    return rx.el.section(head, if_(has_points, drawn, wait), under, folded, class_name="card")


def plot(figure: Any, label: Text, *, height: int = 260) -> rx.Component:
    """The drawing alone; `figure` is one of `components.figures`, or a variable of it."""
    from plotly.graph_objects import Figure
    from plotly.graph_objs.layout import Template

    template = rx.color_mode_cond(light=_template(INK["light"]), dark=_template(INK["dark"]))
    chart = rx.plotly.basic(
        data=figure.to(Figure) if isinstance(figure, rx.Var) else Figure(figure),
        template=template.to(Template) if isinstance(template, rx.Var) else template,
        config=CONFIG,
        use_resize_handler=True,
        width="100%",
        height=f"{height}px",
    )
    return rx.el.div(chart, role="img", custom_attrs={"aria-label": label}, style={"height": f"{height}px"})


def points_table(heads: Sequence[str], rows: Sequence[Sequence[str]] | rx.Var[list[list[str]]]) -> rx.Component:
    """The chart's points for who does not see it: heads, and rows of texts."""

    def line(row: Any) -> rx.Component:
        return rx.el.tr(*[rx.el.td(row[n], class_name="num") for n in range(len(heads))])

    return rx.el.table(
        rx.el.thead(rx.el.tr(*[rx.el.th(head, scope="col", class_name="num") for head in heads])),
        rx.el.tbody(*each(rows, line)),
        class_name="t",
    )


def _template(ink: Ink) -> dict[str, Any]:
    axis = {
        "gridcolor": ink.grid,
        "linecolor": ink.axis,
        "zeroline": False,
        "tickfont": {"size": 11, "color": ink.second_text},
        "automargin": True,
        "ticks": "",
        "fixedrange": False,
    }
    lines = [
        {"mode": "lines", "line": {"color": ink.faint_line, "width": 1}},
        {"mode": "lines", "line": {"color": ink.line, "width": 1.75}},
        {
            "mode": "lines+markers",
            "line": {"color": ink.text, "width": 2},
            "marker": {"size": 7, "color": ink.panel, "line": {"color": ink.text, "width": 1.75}},
        },
        {"mode": "lines", "line": {"color": ink.second_text, "width": 1, "dash": "dash"}},
    ]
    return {
        "data": {"scatter": lines, "bar": [{"marker": {"color": ink.line}}]},
        "layout": {
            "font": {"family": FONT, "size": 11, "color": ink.second_text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis
            | {
                "showspikes": True,
                "spikemode": "across",
                "spikethickness": 1,
                "spikedash": "2px,3px",
                "spikecolor": ink.second_text,
                "spikesnap": "cursor",
            },
            "yaxis": axis,
            "hovermode": "x unified",
            "hoverlabel": {
                "bgcolor": ink.tip,
                "bordercolor": ink.tip_border,
                "font": {"family": FONT, "size": 12, "color": ink.text},
            },
            "showlegend": False,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8, "pad": 4},
        },
    }
