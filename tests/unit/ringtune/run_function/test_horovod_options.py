# SPDX-License-Identifier: Apache-2.0
"""Programs that call `horovod.run` need no other arguments: each acts, or is refused with a sentence."""

from typing import Any

import pytest

import ringtune
from ringtune.errors import ConfigError
from ringtune.run_function import launch_arguments
from ringtune.run_function.horovod_options import FIELDS, number_of_ranks

# The parameters of horovod.run 0.28 besides the function and its arguments.
HOROVOD_RUN = (
    *("num_proc", "min_num_proc", "max_num_proc", "slots", "reset_limit", "cooldown_range", "hosts", "hostfile"),
    *("start_timeout", "ssh_port", "ssh_identity_file", "disable_cache", "output_filename", "verbose", "use_gloo"),
    *("use_mpi", "mpi_args", "network_interface", "executable", "np", "min_np", "max_np"),
)


def test_every_argument_of_horovods_is_known_and_may_be_none() -> None:
    """None stands for "not given", as there; `func` is the function."""
    nothing: dict[str, Any] = dict.fromkeys(HOROVOD_RUN)

    arguments = launch_arguments({**nothing, "num_proc": 2})

    assert set(HOROVOD_RUN) == {*FIELDS, "num_proc", "np", "executable"}
    assert (2, (), None) == (arguments.ranks, arguments.options, arguments.executable)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"hosts": "localhost:2"}, ("-H", "localhost:2")),
        ({"hosts": "localhost", "slots": 2}, ("-H", "localhost", "--slots-per-host", "2")),
        ({"hosts": "localhost:2", "ssh_port": 2222}, ("-H", "localhost:2", "-p", "2222")),
        ({"hosts": ["localhost:1", "node.invalid:1"]}, ("-H", "localhost:1,node.invalid:1")),
        ({"hosts": [("localhost", 2), ("fd00::3", 1)]}, ("-H", "localhost:2,[fd00::3]:1")),
        ({"hosts": {"localhost": 2}}, ("-H", "localhost:2")),
        ({"hosts": lambda: {"localhost": 1, "node.invalid": 1}}, ("-H", "localhost:1,node.invalid:1")),
        ({"start_timeout": 5}, ("--start-timeout", "5")),
        ({"verbose": 2}, ("--verbose",)),
        ({"use_gloo": True, "use_mpi": False}, ("--gloo",)),
        ({"use_mpi": True, "mpi_args": "-x A"}, ("--mpi", "--mpi-args", "-x A")),
        ({"disable_cache": True}, ("--disable-cache",)),
        ({"output_filename": "out"}, ("--output-filename", "out")),
        ({"network_interface": "lo"}, ("--network-interfaces", "lo")),
        ({"min_num_proc": 1, "max_num_proc": 4}, ("--min-np", "1", "--max-np", "4")),
        ({"min_np": 1, "reset_limit": 0}, ("--min-np", "1", "--reset-limit", "0")),
        ({"min_np": 1, "cooldown_range": (1, 2)}, ("--min-np", "1", "--blacklist-cooldown-range", "1", "2")),
    ],
)
def test_an_argument_is_an_option_of_the_launcher(given: dict[str, Any], options: tuple[str, ...]) -> None:
    """The argument has the effect of the launcher's option."""
    assert options == launch_arguments({"np": 2, **given}).options


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"use_gloo": True, "use_mpi": True}, "ringtune.run(use_mpi=True) name two launchers"),
        ({"min_num_proc": 3}, "--min-np 3, -np 2 are not in order"),
        ({"max_np": 1}, "--min-np 2, -np 2, --max-np 1 are not in order"),
        ({"min_np": 1, "max_np": 300}, "300 workers are not possible on one host"),
        ({"min_np": 1, "use_mpi": True}, "ringtune.run(min_np=1): mpirun starts a fixed number of ranks"),
        ({"reset_limit": 0}, "ringtune.run(reset_limit=0) is about elastic jobs, and this is none"),
        ({"cooldown_range": (1, 2)}, "ringtune.run(cooldown_range=(1, 2)) is about elastic jobs"),
        ({"ssh_port": 22}, "ringtune.run(ssh_port=22) without -H: there is no other host"),
        ({"ssh_port": 0.5}, "ringtune.run(ssh_port=0.5) 0.5 is not possible; allowed: an integer"),
        ({"network_interface": "none0"}, "none0 is no network interface of this machine"),
        ({"hosts": "localhost:2", "hostfile": "hosts"}, "both name the hosts"),
        ({"hostfile": "no-such-file"}, "--hostfile no-such-file cannot be read"),
        ({"hosts": "localhost:1"}, "-np 2 is more than the 1 slots"),
        ({"hosts": list}, "ringtune.run(hosts=FUNCTION): the function named no host"),
        ({"hosts": lambda: 1 / 0}, "the function raised ZeroDivisionError"),
        ({"hosts": [3]}, "ringtune.run(hosts=[3]) is not possible; allowed: 'a:2,b:2'"),
        ({"hosts": 3}, "ringtune.run(hosts=3) is not possible; allowed: 'a:2,b:2'"),
        ({"hosts": [("a", "x")]}, "is not possible; allowed: 'a:2,b:2'"),
    ],
)
def test_what_a_call_cannot_have_is_a_sentence(given: dict[str, Any], text: str) -> None:
    """Raised before any rank starts; it names the argument and the one to use."""
    with pytest.raises(ConfigError) as error:
        launch_arguments({"np": 2, **given})

    assert text in str(error.value)


def test_a_host_that_would_get_no_rank_does_not_matter() -> None:
    """Hosts are filled in their order."""
    assert not launch_arguments({"np": 2, "hosts": "localhost:2,elsewhere.invalid:2"}).names_others
    assert launch_arguments({"np": 3, "hosts": "localhost:2,elsewhere.invalid:2"}).names_others
    assert launch_arguments({"np": 2, "min_np": 1, "hosts": "elsewhere.invalid:2"}).names_others


@pytest.mark.parametrize(("np", "num_proc"), [(3, None), (None, 3), (3, 3)])
def test_the_number_of_ranks_has_two_names(np: int | None, num_proc: int | None) -> None:
    """Either, or both alike."""
    assert 3 == number_of_ranks(np, num_proc)


def test_an_elastic_job_may_name_its_smallest_number_alone() -> None:
    """The first meeting has that number, too."""
    arguments = launch_arguments({"min_np": 2})

    assert (2, True) == (arguments.ranks, arguments.is_elastic)
    assert not launch_arguments({"np": 2}).is_elastic


@pytest.mark.parametrize(("np", "num_proc"), [(None, None), (2, 3)])
def test_no_number_of_ranks_or_two_are_refused(np: int | None, num_proc: int | None) -> None:
    """The message shows both."""
    with pytest.raises(ValueError, match=f"np={np}, num_proc={num_proc}"):
        number_of_ranks(np, num_proc)


def test_an_argument_that_nobody_knows_is_pythons_own_error() -> None:
    """An unknown argument is a TypeError as for any function; so is a call without a function."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'processes'"):
        ringtune.run(len, processes=2)
    with pytest.raises(TypeError, match="misses the function"):
        ringtune.run(np=2)
