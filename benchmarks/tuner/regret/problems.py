# SPDX-License-Identifier: Apache-2.0
"""All problems by name: simulated jobs, chosen, inert or drawn by a rule, recorded surfaces, and public data."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ringtune.tuner.simulator import SCENARIOS

from .drawn import drawn_problems
from .problem import Problem
from .public_data import public_problems, relaunched_problems
from .recorded import recorded_problems
from .simulated import SimulatedProblem

SURFACES = Path(__file__).parents[1] / "surfaces"
"""Folder of the recorded surfaces."""
INERT = ("mobilenet_v2_np4_crowded", "manysmall_np2", "resnet50_8x8_25gbit", "resnet50_2x2_1gbit")
"""Scenarios that are also run with knobs without effect: two on busy machines, an ordinary and a quiet one."""
KINDS = ("simulated", "drawn", "recorded", "public", "relaunched")


@dataclass(frozen=True)
class Sources:
    """Sources of problems beside the simulator.

    Attributes:
        surfaces: Folder of recorded surfaces.
        data: Folder of public measurements; None leaves them out.
    """

    surfaces: Path = SURFACES
    data: Path | None = None

    def missing(self) -> list[str]:
        """Say which kinds of problems are left out, and why."""
        notes = []
        if not problems_of(self, "recorded"):
            notes.append(f"no recorded surfaces in {self.surfaces}; `ringtune bench --record-surface` makes them")
        if self.data is None:
            notes.append("no public data: --data names no folder")
        elif not problems_of(self, "public"):
            notes.append(f"no public data: {self.data} has no surfaces/ and collectives/ that make a problem")
        return notes


def all_problems(sources: Sources) -> Mapping[str, Problem]:
    """Return the problems of all kinds by name."""
    return {name: problem for kind in KINDS for name, problem in problems_of(sources, kind).items()}


@cache
def problems_of(sources: Sources, kind: str) -> Mapping[str, Problem]:
    """Return the problems of a kind by name, made once per process, with the step times that were asked for."""
    found: list[Problem] = []
    if kind == "simulated":
        found += [SimulatedProblem(scenario) for scenario in SCENARIOS.values()]
        found += [SimulatedProblem(SCENARIOS[name], is_inert=True) for name in INERT]
    elif kind == "drawn":
        found += drawn_problems()
    elif kind == "recorded":
        found += recorded_problems(sources.surfaces)
    elif sources.data is not None:
        found += public_problems(sources.data) if kind == "public" else relaunched_problems(sources.data)
    return {problem.name: problem for problem in found}
