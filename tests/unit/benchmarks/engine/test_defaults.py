# SPDX-License-Identifier: Apache-2.0
"""The comparison of the defaults: legal candidates, and verdicts that count intervals on one side of 1."""

from benchmarks.engine.defaults import (
    ALL_CANDIDATES,
    DEFAULT,
    FAR_CANDIDATES,
    FLAT,
    SHAPES,
    config_of,
    ratios_of,
    verdicts,
)
from ringtune.tuner import default_config
from ringtune.world.engine_config import engine_config

FASTER, SLOWER, SAME = [0.8] * 9, [1.2] * 9, [0.9, 1.1] * 4 + [1.0]


def test_jobs_differ_and_candidates_are_legal() -> None:
    """Each candidate differs from the default in its parameter alone."""
    assert len(SHAPES) == len({shape.title for shape in SHAPES})
    for name, values in ALL_CANDIDATES.items():
        config, default = config_of(name, (2, 2)), default_config((2, 2))
        assert dict(values) == {key: value for key, value in config.items() if value != default[key]}
        engine_config(config.to_json())


def test_the_hierarchical_switch_is_measured_where_it_acts() -> None:
    """The switch needs several hosts of which one has several ranks."""
    layouts = {shape.ranks_per_host for shape in SHAPES if FLAT in shape.candidates}
    assert all(set(FAR_CANDIDATES) == set(shape.candidates) for shape in SHAPES if shape.delay_ms > 0)

    assert {(2, 2), (1, 2), (4, 4), (2, 2, 2)} == layouts


def test_verdicts_count_jobs_with_an_interval_on_one_side() -> None:
    """A candidate that was not measured in a job does not count there."""
    jobs = [{"cycle_ms=3": FASTER, "cycle_ms=10": SLOWER}, {"cycle_ms=3": SAME}]
    found = [ratios_of({DEFAULT: [1.0] * 9, **times}) for times in jobs]

    assert {"cycle_ms=3: faster in 1 of 2 jobs, slower in 0", "cycle_ms=10: faster in 0 of 1 jobs, slower in 1"} <= set(
        verdicts(found)
    )
