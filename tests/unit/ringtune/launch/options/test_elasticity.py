# SPDX-License-Identifier: Apache-2.0
"""Options of elastic jobs, in horovodrun's spelling: limits, hosts, and contradictions."""

import socket
from pathlib import Path
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.elastic.answers import FoundHost
from ringtune.launch.elastic.discovery import DiscoverySource
from ringtune.launch.elastic.host_table import Cooldown
from ringtune.launch.elastic.sizes import NO_LIMIT, WorldLimits
from ringtune.launch.options.choices import read_choices
from ringtune.launch.options.elasticity import elastic_hosts, elastic_limits, is_elastic

HERE = socket.gethostname()


def limits(environ: dict[str, str] | None = None, **given: Any) -> WorldLimits:
    """Return the limits that options ask for."""
    return elastic_limits(read_choices(given), environ or {}, 30.0)


def hosts(**given: Any) -> tuple[FoundHost, ...] | DiscoverySource:
    """Return the hosts that options ask for."""
    choices = read_choices(given)
    return elastic_hosts(choices, elastic_limits(choices, {}, 30.0))


@pytest.mark.parametrize("given", [{"min_np": "1"}, {"max_np": "4"}, {"host_discovery_script": "./hosts.sh"}])
def test_each_of_three_options_makes_a_job_elastic(given: dict[str, str]) -> None:
    """A plain job is not elastic, as with horovodrun."""
    assert is_elastic(read_choices({"num_proc": "2", **given}))
    assert not is_elastic(read_choices({"num_proc": "2"}))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"reset_limit": "3"}, "--reset-limit is about elastic jobs"),
        ({"elastic_timeout": "3"}, "--elastic-timeout is about elastic jobs"),
        ({"blacklist_cooldown_range": ("3", "5")}, "--blacklist-cooldown-range is about elastic jobs"),
        ({"min_np": "1", "mpi": True}, "--min-np: mpirun starts a fixed number of ranks"),
    ],
)
def test_options_that_would_be_idle_are_refused(given: dict[str, Any], word: str) -> None:
    """No option is ignored silently."""
    with pytest.raises(ConfigError, match=word):
        is_elastic(read_choices({"num_proc": "2", **given}))


def test_numbers_have_horovods_defaults() -> None:
    """The smallest number is -np where it is not given, and the largest is unbounded."""
    assert WorldLimits(4, 4) == limits(num_proc="4", max_np=None, host_discovery_script="x")
    assert WorldLimits(2, 2, 6) == limits(min_np="2", max_np="6")
    assert WorldLimits(2, 4, 6, reset_limit=0) == limits(num_proc="4", min_np="2", max_np="6", reset_limit="0")
    assert NO_LIMIT == limits(min_np="2").max_workers


def test_times_come_from_options_then_from_horovods_variable() -> None:
    """A malformed variable is named."""
    assert 600.0 == limits(min_np="1").elastic_s
    assert 7.0 == limits({"HOROVOD_ELASTIC_TIMEOUT": "7"}, min_np="1").elastic_s
    assert 9.0 == limits({"HOROVOD_ELASTIC_TIMEOUT": "7"}, min_np="1", elastic_timeout="9").elastic_s
    assert Cooldown(10.0, 100.0) == limits(min_np="1", blacklist_cooldown_range=("10", "100")).cooldown
    with pytest.raises(ConfigError, match="HOROVOD_ELASTIC_TIMEOUT soon is not possible"):
        limits({"HOROVOD_ELASTIC_TIMEOUT": "soon"}, min_np="1")


def test_hosts_come_from_a_script_a_function_a_list_or_this_machine(tmp_path: Path) -> None:
    """`--slots-per-host` holds where no number is given."""
    file = tmp_path / "hosts"
    file.write_text("x@a slots=2\n", encoding="utf-8")

    assert DiscoverySource("script", "./h.sh -v", 4, "--host-discovery-script") == hosts(
        min_np="1", host_discovery_script="./h.sh -v", slots_per_host="4"
    )
    assert DiscoverySource("function", "cluster:hosts", 1, "--hosts-from") == hosts(
        min_np="1", hosts_from="cluster:hosts"
    )
    assert (FoundHost("x@a", 2),) == hosts(min_np="1", hostfile=str(file))
    assert (FoundHost("127.0.0.1", 3, is_here=True), FoundHost("x@b", 1)) == hosts(min_np="1", hosts="127.0.0.1:3,x@b")
    assert (FoundHost(HERE, 3, is_here=True),) == hosts(min_np="1", num_proc="3")
    assert (FoundHost(HERE, 5, is_here=True),) == hosts(min_np="1", max_np="5")
    assert (FoundHost(HERE, 2, is_here=True),) == hosts(min_np="1", max_np="5", slots_per_host="2")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"host_discovery_script": "x", "hosts": "a"}, "--host-discovery-script and -H both name the hosts"),
        ({"hosts_from": "x:y", "hostfile": "h"}, "--hosts-from and --hostfile both name the hosts"),
        ({"hosts_from": "x"}, "--hosts-from x names no function"),
        ({"ssh_port": "22"}, "-p without -H"),
        ({"hosts": "x@a:2", "num_proc": "3"}, "-np 3 is more than the 2 slots of the hosts"),
        ({"hosts": "localhost,127.0.0.1"}, "localhost and 127.0.0.1 are both this machine"),
        ({"max_np": "300"}, "300 workers are not possible on one host"),
    ],
)
def test_hosts_that_cannot_be_are_refused(given: dict[str, str], word: str) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=word):
        hosts(min_np="1", **given)
