# SPDX-License-Identifier: Apache-2.0
"""Tests of the answers of a designer's process."""

import math
from typing import Any

import numpy as np
import pytest

from ringtune.service.domain.design_worker import suggest
from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.testing import engine_like_surface

SPACE = search_space({}, default_config(), tuned=("cycle_ms",))
TRIED = (default_config(), *(SPACE.at_quantiles([(i + 0.5) / 12]) for i in range(12)))


def problem(seed: int, count: int) -> dict[str, Any]:
    """Return a problem of one knob, with noisy samples at twelve places, the baseline four times."""
    rng = np.random.default_rng(seed)
    trials = []
    for number, config in enumerate(TRIED):
        drawn = rng.normal(engine_like_surface(config), 0.02, 1 if number else 4)
        samples = [[math.exp(y), 0.0, math.exp(y), 10, 1e9] for y in drawn]
        trials.append({"config": config.to_json(), "samples": samples})
    return {
        "designer": "gp",
        "seed": 0,
        "space": SPACE.to_json(),
        "trials": trials,
        "pending": [],
        "count": count,
        "gradient_bytes": [],
        "layout": [2],
    }


@pytest.mark.parametrize("seed", [15, 24, 26])
def test_a_batch_has_as_many_configs_as_were_asked_for(seed: int) -> None:
    """Distinct ones, although the designer wants second samples of measured configs."""
    found = [Config(config) for config in suggest(problem(seed, 6))]

    assert 6 == len(set(found))
    assert set(found) & set(TRIED)
