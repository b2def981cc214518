# SPDX-License-Identifier: Apache-2.0
"""Samplers of other libraries: their view of the space, and the measurements that they receive."""

import math

from benchmarks.tuner.measured.knob_grid import KnobGrid
from benchmarks.tuner.regret.rivals.asked import AskedDesigner, grid_of
from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.testing import engine_like_surface, measured_trial
from tests.unit.benchmarks.tuner.regret.rivals.asking import asked

SPACE = search_space({}, default_config())


class NotingSampler:
    """Asks for the first values first, and notes the measurements that it receives."""

    def __init__(self, grid: KnobGrid, seed: int, launches: int) -> None:
        """Begin without a note."""
        del seed, launches
        self.grid = grid
        self.told: list[tuple[Config, float]] = []

    def ask(self) -> Config:
        """Return the config of the first values, then that of the second, as far as there are some."""
        return self.grid.config_at([min(len(self.told) - 1, len(of) - 1) for of in self.grid.knobs.values()])

    def tell(self, config: Config, ms: float | None) -> None:
        """Note it."""
        assert ms is not None
        self.told.append((config, ms))


def noting() -> tuple[AskedDesigner, list[tuple[Config, float]]]:
    """Return a designer, and the measurements that its sampler receives."""
    made: list[NotingSampler] = []

    def make(grid: KnobGrid, seed: int, launches: int) -> NotingSampler:
        made.append(NotingSampler(grid, seed, launches))
        return made[0]

    designer = AskedDesigner(make, SPACE, 0)
    return designer, made[0].told


def test_the_grid_has_special_values_and_the_default_in_order() -> None:
    """Numbers ascend; switches are categories of two."""
    grid = grid_of(SPACE)

    assert {parameter.name for parameter in SPACE.free} == set(grid.knobs)
    numbers = [float(value) for value in grid.knobs["fusion_bytes"]]
    assert numbers == sorted(numbers)
    assert 0 == grid.knobs["fusion_bytes"][0]
    assert all(grid.default[name] in values for name, values in grid.knobs.items())
    assert {False, True} == set(grid.knobs["response_cache"])
    assert "auto" == grid.knobs["chunk_bytes"][0]
    assert {"fusion_bytes", "cycle_ms", "chunk_bytes"} <= grid.ordered
    assert not grid.is_ordered("response_cache")


def test_the_sampler_is_told_the_baseline_once_and_each_config_that_it_asked_for() -> None:
    """A sample of the baseline in between is none of the sampler's business."""
    designer, received = noting()

    suggested = asked(designer, 3, engine_like_surface, [default_config()])
    again = [math.exp(engine_like_surface(default_config()))] * 5
    measured = [
        measured_trial(0, default_config(), again),
        *(measured_trial(i + 1, config, [float(i + 1)]) for i, config in enumerate(suggested)),
    ]
    designer.update(measured)
    designer.update(measured)

    assert [default_config(), *suggested] == [SPACE.default().replace(config) for config, _ in received]
    assert math.isclose(received[0][1], math.exp(engine_like_surface(default_config())))
    assert math.isclose(3.0, received[-1][1])


def test_settings_between_the_values_of_the_grid_are_told_as_the_nearest() -> None:
    """A job begins with whatever its user has set."""
    designer, received = noting()
    odd = default_config().replace({"cycle_ms": 19.7})

    designer.update([measured_trial(0, odd, [5.0])])

    ((config, _),) = received
    assert config["cycle_ms"] in grid_of(SPACE).knobs["cycle_ms"]
    assert 15.0 < float(config["cycle_ms"]) < 25.0
