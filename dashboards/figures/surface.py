# SPDX-License-Identifier: Apache-2.0
"""The model's surface over two parameters, with the samples on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import plotly.graph_objects as go

from ringtune.tuner.review import Analysis, RunReview, words
from ringtune.tuner.review.surrogate import SpeedUpInterval, Surrogate
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import NumberParameter
from ringtune.tuner.space.readable import readable_value

from .axes import ValueAxis
from .figure import GREEN, ORANGE, Figure, FigureTable, described, plain

GRID = 25
TABLE_GRID = 5


@dataclass(frozen=True)
class Plane:
    """Two parameters, x and y, of a model, through the config `centre`, seen from `reference`."""

    surrogate: Surrogate
    parameters: tuple[NumberParameter, NumberParameter]
    axes: tuple[ValueAxis, ValueAxis]
    centre: Config
    reference: Config

    def grid(self, size: int) -> tuple[list[list[Value]], list[SpeedUpInterval]]:
        """Return `size` values of x and of y, and the changes at all their pairs, x running fastest."""
        shares = [index / (size - 1) for index in range(size)]
        lines = [
            [parameter.nearest(axis.number_at(share)) for share in shares]
            for parameter, axis in zip(self.parameters, self.axes, strict=True)
        ]
        names = [parameter.name for parameter in self.parameters]
        configs = [self.centre.replace(dict(zip(names, (x, y), strict=True))) for y, x in product(lines[1], lines[0])]
        return lines, self.surrogate.changes(self.reference, configs)


def surface_figure(run: RunReview, analysis: Analysis, names: tuple[str, str]) -> Figure | None:
    """Return the surface over two parameters, or None where not both varied over several numbers."""
    plane = _plane(run, analysis, names)
    if plane is None:
        return None
    coarse, changes = plane.grid(TABLE_GRID)
    rows = [
        (readable_value(names[0], x), readable_value(names[1], y), words.interval(change))
        for (y, x), change in zip(product(coarse[1], coarse[0]), changes, strict=True)
    ]
    against = "the baseline" if plane.reference == run.baseline else "the reference config"
    return Figure(
        "surface",
        f"Surface over {names[0]} and {names[1]}",
        f"What the model that is fitted to all windows expects over {against} (the lighter, the faster), other "
        "parameters as chosen; nobody tested it. Points are configs that were tried, the ring is the chosen one.",
        FigureTable.of((names[0], names[1], "expected speed-up, 90 % interval"), rows),
        described(
            [_contour(plane), *_samples(run, plane)],
            height=460,
            xaxis=plane.axes[0].layout(),
            yaxis=plane.axes[1].layout(),
        ),
    )


def _plane(run: RunReview, analysis: Analysis, names: tuple[str, str]) -> Plane | None:
    surrogate = analysis.surrogate
    if surrogate is None:
        return None
    kinds = {parameter.name: parameter for parameter in surrogate.varied if isinstance(parameter, NumberParameter)}
    if not set(names) <= set(kinds):
        return None
    x, y = (ValueAxis(name, [config[name] for config in surrogate.configs]) for name in names)
    if not (x.has_numbers and y.has_numbers):
        return None
    centre = _known(run.chosen, surrogate)
    return Plane(surrogate, (kinds[names[0]], kinds[names[1]]), (x, y), centre, _known(analysis.reference, surrogate))


def _known(config: Config | None, surrogate: Surrogate) -> Config:
    """Return a config, or the best one where it was not measured."""
    return config if config is not None and config in surrogate.configs else surrogate.best


def _contour(plane: Plane) -> Any:
    lines, changes = plane.grid(GRID)
    return go.Contour(
        x=[plane.axes[0].position(value) for value in lines[0]],
        y=[plane.axes[1].position(value) for value in lines[1]],
        z=[[100 * change.fraction for change in changes[row * GRID : (row + 1) * GRID]] for row in range(GRID)],
        colorscale="Viridis",
        colorbar={"title": {"text": "expected, %"}},
        contours={"coloring": "fill"},
        hovertemplate="%{z:.1f} %<extra></extra>",
    )


def _samples(run: RunReview, plane: Plane) -> list[Any]:
    configs = plane.surrogate.configs
    traces = [_points(configs, plane, "tried", {"color": "#ffffff"})]
    if run.baseline is not None and run.baseline in configs:
        traces.append(_points([run.baseline], plane, "baseline", {"color": ORANGE, "size": 12, "symbol": "diamond"}))
    if run.chosen is not None and run.chosen in configs:
        ring = {"color": GREEN, "size": 18, "symbol": "circle-open", "line": {"width": 4, "color": GREEN}}
        traces.append(_points([run.chosen], plane, "chosen", ring))
    return traces


def _points(configs: Sequence[Config], plane: Plane, name: str, marker: dict[str, Any]) -> Any:
    x, y = plane.axes
    return go.Scatter(
        x=[x.position(config[x.name]) for config in configs],
        y=[y.position(config[y.name]) for config in configs],
        mode="markers",
        name=name,
        marker={"size": 8, "line": {"width": 1, "color": "#000000"}, **marker},
        text=[
            plain(", ".join(readable_value(axis.name, config[axis.name]) for axis in plane.axes)) for config in configs
        ],
        hoverinfo="text",
    )


def _named(config: Config, plane: Plane) -> str:
    return plain(", ".join(readable_value(axis.name, config[axis.name]) for axis in plane.axes))
