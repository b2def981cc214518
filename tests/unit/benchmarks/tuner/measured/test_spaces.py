# SPDX-License-Identifier: Apache-2.0
"""Measured spaces: the contents of a file, and launches that draw from its runs."""

from pathlib import Path

import pytest

from benchmarks.tuner.measured.launches import engine_of
from benchmarks.tuner.measured.spaces import Launches, MeasuredSpace, read_spaces
from ringtune.tuner import Config
from ringtune.tuner.space.parameter_types import CategoryParameter
from tests.unit.benchmarks.tuner.measured.tiny_space import NAME, write_tiny_space


@pytest.fixture
def space(tmp_path: Path) -> MeasuredSpace:
    """The tiny space, read from its file."""
    return read_spaces(write_tiny_space(tmp_path))[NAME]


def test_knobs_have_their_values_in_order_and_one_value_is_no_knob(space: MeasuredSpace) -> None:
    """Numbers are ordered as numbers, whatever the order of the rows."""
    assert {"tile": ("1", "4", "8", "16"), "threads": ("2", "8", "32", "64"), "pad": ("0", "1", "2")} == space.knobs
    assert space.grid.is_ordered("threads")


def test_the_default_is_the_median_and_the_best_the_lowest_median(space: MeasuredSpace) -> None:
    """Half of the valid configs are faster than the default; a ratio is one of medians."""
    valid = [config for config, runs in space.runs_ms.items() if runs]
    best = Config({"tile": "16", "threads": "2", "pad": "0"})

    assert 45 == len(valid)
    assert 1.0 == space.ratio(best)
    assert pytest.approx(2.71) == space.best_ms
    ratios = sorted(space.ratio(config) for config in valid)
    assert ratios[len(valid) // 2] == space.ratio(space.default)


def test_invalid_configs_and_those_without_a_row_fail(space: MeasuredSpace) -> None:
    """Launches draw from all runs of a config, by seed, and count failures."""
    launches = Launches(space, 3)
    empty, absent = ({"tile": "16", "threads": "64", "pad": pad} for pad in ("1", "0"))

    drawn = {launches.launch(Config({"tile": "16", "threads": "2", "pad": "0"})) for _ in range(40)}

    assert {2.7, 2.72, 2.71} == drawn
    assert [None, None] == [launches.launch(Config(values)) for values in (empty, absent)]
    assert (42, 2) == (launches.count, launches.failed)


def test_the_space_that_ringtune_tunes_is_that_of_a_knob_file(space: MeasuredSpace) -> None:
    """Knobs are choices, and the baseline is the default."""
    engine = engine_of(space)

    assert space.default == engine.baseline()
    free = engine.space({}).free
    assert [CategoryParameter] * 3 == [type(parameter) for parameter in free]
    assert [len(values) for values in space.knobs.values()] == [parameter.count for parameter in free]


def test_a_folder_without_measurements_is_refused(tmp_path: Path) -> None:
    """The message has the file names that are looked for, and the option that gives their folder."""
    with pytest.raises(FileNotFoundError, match=r"measured/convolution_\*.csv.gz.*--data"):
        read_spaces(tmp_path)
