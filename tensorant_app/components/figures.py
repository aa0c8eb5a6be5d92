"""Figures as Plotly reads them, in plain JSON: data without colours, from points that the server has thinned out.

No Plotly in Python: a state keeps the dictionary (`figure: dict[str, Any]`), and the page's chart draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Points = Sequence[tuple[float, float]]
Figure = dict[str, Any]

_ROOM = 1.012
"""A little more than the last step, so that the marker on it is whole."""

EMPTY: Figure = {"data": [], "layout": {}}


def loss_figure(
    training: Points,
    smoothed: Points,
    validation: Points,
    *,
    total_steps: int | None = None,
    log: bool = True,
    x_title: str = "Step",
) -> Figure:
    """Training thin, smoothed, validation with markers; the axis as long as the run will be."""
    named = (("Training", training), ("Smoothed", smoothed), ("Validation", validation))
    return _figure([_line(points, name) for name, points in named], _x(total_steps, x_title), _y(log))


def metric_figure(
    points: Points, *, total_steps: int | None = None, reference: float | None = None, marked: bool = False
) -> Figure:
    """One small curve, and a dashed line at `reference`. `marked`: few points, drawn like validation."""
    empty, curve = _line((), ""), _line(points, "")
    lines = [empty, empty, curve] if marked else [empty, curve, empty]
    if reference is not None and points:
        end = total_steps or points[-1][0]
        lines.append(_line(((0, reference), (end, reference)), "", is_read=False))
    x = _x(total_steps, "") | {"showgrid": False, "showticklabels": False, "showspikes": False}
    return _figure(lines, x, {"nticks": 4})


def histogram_figure(bars: Sequence[tuple[float, float, str]]) -> Figure:
    """`bars`: where each begins, how high it is, and its words; all but the last are as wide as the first."""
    width = bars[1][0] - bars[0][0] if len(bars) > 1 else 1.0
    drawn = {
        "type": "bar",
        "x": [start + width / 2 for start, _, _ in bars],
        "y": [height for _, height, _ in bars],
        "width": [0.92 * width] * len(bars),
        "customdata": [words for _, _, words in bars],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    x = {"tickformat": ",d", "nticks": 8, "showgrid": False, "showspikes": False}
    figure = _figure([drawn], x, {"nticks": 4, "tickformat": ",d"})
    figure["layout"]["hovermode"] = "closest"
    return figure


def _line(points: Points, name: str, *, is_read: bool = True) -> dict[str, Any]:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    hover = {"hovertemplate": "%{y:.4g}"} if is_read else {"hoverinfo": "skip"}
    return {"type": "scatter", "name": name, "x": xs, "y": ys, **hover}


def _figure(lines: list[dict[str, Any]], x: dict[str, Any], y: dict[str, Any]) -> Figure:
    return {"data": lines, "layout": {"uirevision": "keep", "xaxis": x, "yaxis": y}}


def _x(total_steps: int | None, title: str) -> dict[str, Any]:
    axis: dict[str, Any] = {"tickformat": ",d", "nticks": 6, "hoverformat": ",d"}
    if total_steps:
        axis["range"] = [0, total_steps * _ROOM]
    if title:
        axis["unifiedhovertitle"] = {"text": f"{title} %{{x}}"}
    return axis


def _y(log: bool) -> dict[str, Any]:
    return {"nticks": 6, "type": "log", "dtick": "D2", "tickformat": ".2~f"} if log else {"nticks": 6}
