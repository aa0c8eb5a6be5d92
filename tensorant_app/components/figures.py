"""Figures as Plotly reads them, from points that the server has thinned out already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Points = Sequence[tuple[float, float]]


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
    from plotly.graph_objects import Figure, Scatter

    named = [("Training", training), ("Smoothed", smoothed), ("Validation", validation)]
    traces = [
        Scatter(name=name, x=[x for x, _ in points], y=[y for _, y in points], hovertemplate="%{y:.4g}")
        for name, points in named
    ]
    figure = Figure(traces)
    figure.update_layout(template=None, uirevision="keep", **_axes(total_steps, log, x_title))
    return figure


def metric_figure(
    points: Points, *, total_steps: int | None = None, reference: float | None = None, marked: bool = False
) -> Figure:
    """One small curve, and a dashed line at `reference`. `marked`: few points, drawn like validation."""
    from plotly.graph_objects import Figure, Scatter

    empty = Scatter(x=[], y=[], hoverinfo="skip")
    curve = Scatter(x=[x for x, _ in points], y=[y for _, y in points], hovertemplate="%{y:.4g}", name="")
    traces = [empty, empty, curve] if marked else [empty, curve, empty]
    if reference is not None and points:
        end = total_steps or points[-1][0]
        traces.append(Scatter(x=[0, end], y=[reference, reference], hoverinfo="skip"))
    figure = Figure(traces)
    figure.update_layout(template=None, uirevision="keep", **_axes(total_steps, log=False, x_title=""))
    figure.update_yaxes(nticks=4)
    figure.update_xaxes(showgrid=False, showticklabels=False, showspikes=False)
    return figure


def _axes(total_steps: int | None, log: bool, x_title: str) -> dict[str, Any]:
    x: dict[str, Any] = {"tickformat": ",d", "nticks": 6, "hoverformat": ",d"}
    if total_steps:
        x |= {"range": [0, total_steps]}
    if x_title:
        x["unifiedhovertitle"] = {"text": f"{x_title} %{{x}}"}
    y: dict[str, Any] = {"nticks": 6}
    if log:
        y |= {"type": "log", "dtick": "D2", "tickformat": ".2~f"}
    return {"xaxis": x, "yaxis": y}
