# SPDX-License-Identifier: Apache-2.0
"""The elastic loop and its states through resets whose meetings are given beforehand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs import Finished, forked
from tests.integration.ports import free_ports
from tests.integration.worlds import explicit, run_all_forked


def meetings(*worlds: Sequence[str]) -> dict[str, list[Mapping[str, str]]]:
    """Return the places of each process, by its name: those of each world that has it, in its order of ranks."""
    places: dict[str, list[Mapping[str, str]]] = {}
    first_port = free_ports(len(worlds))
    for number, world in enumerate(worlds):
        for rank, name in enumerate(world):
            changes = {"RINGTUNE_JOB_KEY": f"{number:02d}" * 32}
            address = f"tcp://127.0.0.1:{first_port + number}"
            places.setdefault(name, []).append(explicit(rank, len(world), address, **changes))
    return places


def run_history(history: str, folder: Path, *worlds: Sequence[str], recipe: str = "plain") -> dict[str, Finished]:
    """Run a history to its end, and return each process's end by its name."""
    places = meetings(*worlds)
    environs = [{"PLACES": json.dumps(mine), "NAME": name} for name, mine in places.items()]
    command = forked("torch_elastic", history, str(folder), recipe)
    return dict(zip(places, run_all_forked([command] * len(places), environs), strict=True))


def said(finished: Finished) -> dict[str, Any]:
    """Return a process's report."""
    assert 0 == finished.code, finished.text
    report: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return report


def test_a_rate_that_follows_the_size_is_the_same_on_all_ranks(tmp_path: Path) -> None:
    """Survivors and a newcomer scale the rate of the state and the scheduler's base rate alike."""
    recipe = "with a rate that follows the size"
    ended = run_history("comes", tmp_path, ["a", "b"], ["a", "b", "c"], recipe=recipe)

    assert 1 == len({said(finished)["weights"] for finished in ended.values()})


def test_survivors_go_on_from_the_last_commit(tmp_path: Path) -> None:
    """Two of three ranks go on when one is killed, and end with the weights of a replay of the committed steps."""
    ended = run_history("lost", tmp_path, ["a", "b", "c"], ["a", "c"])

    assert -9 == ended.pop("b").code
    reports = {name: said(finished) for name, finished in ended.items()}
    assert reports["a"]["weights"] == reports["c"]["weights"]
    assert [3] * 4 + [2] * (len(reports["a"]["sizes"]) - 4) == reports["a"]["sizes"]


def test_a_lost_rank_0_is_replaced_by_a_rank_that_has_the_state(tmp_path: Path) -> None:
    """The state survives rank 0, also when the next rank 0 is a newcomer without any state."""
    ended = run_history("first lost", tmp_path, ["a", "b", "c"], ["d", "c", "b"])

    assert -9 == ended.pop("a").code
    reports = {name: said(finished) for name, finished in ended.items()}
    assert reports["b"]["weights"] == reports["c"]["weights"] == reports["d"]["weights"]
    steps = len(reports["d"]["sizes"])
    assert steps - 4 == reports["d"]["own_steps"]  # the four that were committed before are not trained again
    assert steps - 4 + 4 <= reports["b"]["own_steps"] <= steps - 4 + 5


def test_a_newcomer_gets_the_state_between_two_commits(tmp_path: Path) -> None:
    """Ranks that have learned of a newcomer meet it at the same step and keep the steps since the last commit."""
    ended = run_history("comes", tmp_path, ["a", "b"], ["a", "b", "c"])

    reports = {name: said(finished) for name, finished in ended.items()}
    assert reports["a"]["weights"] == reports["b"]["weights"] == reports["c"]["weights"]
    assert [2] * 5 + [3] * (len(reports["a"]["sizes"]) - 5) == reports["a"]["sizes"]
    assert "3 ranks instead of 2: training goes on from the latest step" in ended["a"].stderr


@pytest.mark.parametrize(
    "recipe",
    [
        "registered",
        "accumulated",
        "accumulated and registered",
        "grouped",
        "adasum",
        "compressed",
        "scaled",
        "with a closure",
    ],
)
def test_gradients_in_flight_end_with_their_world(tmp_path: Path, recipe: str) -> None:
    """A rank dies amid its backward pass; the others train on with a newcomer, right to the last bit of the replay."""
    ended = run_history("lost in backward", tmp_path, ["a", "b", "c"], ["a", "c", "d"], recipe=recipe)

    assert -9 == ended.pop("b").code
    reports = [said(finished) for finished in ended.values()]
    assert 1 == len({report["weights"] for report in reports})
