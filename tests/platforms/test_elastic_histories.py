# SPDX-License-Identifier: Apache-2.0
"""Random histories of elastic jobs over hosts, under the launcher: workers, links and the discovery fail."""

from pathlib import Path

import pytest

from tests.integration.elastic_host_histories import run_history
from tests.integration.elastic_table import Struck
from tests.integration.hosts import needs_hosts
from tests.integration.remote_shells import needs_ssh

SHORT, LONG = (0, 7), 40
"""Seeds without a stopped worker, which costs twice the time limit; number of seeds of the long form."""
BY_SSH = 10
"""Number of seeds over ssh: the first event of each is of another kind."""


@needs_hosts
@pytest.mark.parametrize(
    "seed",
    [*SHORT, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(LONG) if seed not in SHORT)],
)
def test_a_random_history_over_hosts_ends_with_the_weights_of_its_replay(tmp_path: Path, seed: int) -> None:
    """Each worker checks its weights against a replay of the committed batches; all of them end with the same."""
    struck: list[Struck] = []

    worlds, _ = run_history(seed, tmp_path, struck)

    assert worlds
    assert struck or seed not in SHORT  # events that find no worker to strike are left out


@pytest.mark.long
@needs_hosts
@needs_ssh
@pytest.mark.parametrize("seed", range(BY_SSH))
def test_a_random_history_over_ssh_ends_with_the_weights_of_its_replay(tmp_path: Path, seed: int) -> None:
    """The launcher reaches each host by a real server: a cut-off host takes its connection along."""
    worlds, _ = run_history(seed, tmp_path, [], by_ssh=True)

    assert worlds
