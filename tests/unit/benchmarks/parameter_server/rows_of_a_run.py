# SPDX-License-Identifier: Apache-2.0
"""Rows of made-up trials, as a run would yield them."""

from dataclasses import replace

from benchmarks.parameter_server.plan import PLACES, WORKERS, round_of, witnessed
from benchmarks.parameter_server.role_program import Measured
from benchmarks.parameter_server.rows import Row, row_of
from benchmarks.parameter_server.trial import Trial

ROUNDS = 3


def measured(trial: Trial, step_s: float = 0.1) -> dict[str, Measured]:
    """Return what the processes of a trial would measure if a step took this long, and each gradient 1 MB."""
    steps = round(trial.seconds / step_s)
    ends_s = [step_s * (number + 1) for number in range(steps)]
    curve = [(0.0, 0, 2.0), (trial.seconds, steps * trial.workers, 1.0)]
    found = {}
    for number in range(trial.workers):
        mine = Measured(sent=steps * 10**6, received=steps * 10**6, ends_s=ends_s, staleness=float(trial.workers - 1))
        found[f"worker{number}"] = replace(mine, curve=curve if number == 0 else [])
    for number in range(trial.servers):
        carried = steps * trial.workers * 10**6 // trial.servers
        found[f"server{number}"] = Measured(sent=carried - 10, received=carried)
    return found


def rows() -> list[Row]:
    """Return the rows of a whole run in which every step took 100 ms, and a little more in later rounds."""
    trials = [trial for seed in range(ROUNDS) for trial in round_of(seed, PLACES, WORKERS)] + witnessed(0)
    return [row_of(trial, measured(trial, 0.1 + 0.001 * trial.seed), load=2.0) for trial in trials]
