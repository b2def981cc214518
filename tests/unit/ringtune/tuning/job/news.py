# SPDX-License-Identifier: Apache-2.0
"""Progress and the result of a tuning run, as observers receive them."""

from ringtune.tuner import Config, Phase, Progress, Result

BASELINE = Config({"fusion_bytes": 0, "cycle_ms": 20.0})
CHOSEN = Config({"fusion_bytes": 1048576, "cycle_ms": 20.0})
PROGRESS = Progress(Phase.SEARCH, 3, 20, 123.4e6, 45.6, 78.9, CHOSEN)
RESULT = Result(
    config=CHOSEN,
    baseline=BASELINE,
    adopted=True,
    verdict="adopted: +12.3 % [9.8, 14.9]",
    speedup=0.123,
    ci_low=0.098,
    ci_high=0.149,
    cost_s=1.5,
    payback_steps=200,
    steps=1000,
    seconds=30.0,
    is_complete=True,
)
