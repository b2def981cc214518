# SPDX-License-Identifier: Apache-2.0
"""Variables that the ranks get."""

from ringtune.launch.environment import forwarded
from ringtune.launch.rank_streams import RankStreams

ENVIRON = {
    "AUTOTUNE": "1",
    "AUTOTUNE_SERVICE_TOKEN": "secret",
    "RINGTUNE_CYCLE_MS": "2",
    "RINGTUNE_JOB_KEY": "ab" * 32,
    "HOROVOD_CYCLE_TIME": "2",
    "PATH": "/usr/bin",
    "PYTHONPATH": "x",
    "LD_LIBRARY_PATH": "y",
    "OMP_NUM_THREADS": "4",
    "VIRTUAL_ENV": "z",
    "LANG": "C.UTF-8",
    "RINGTUNE_SERVICE_ADMIN_TOKEN": "secret",
    "HOME": "/nowhere",
    "SSH_AUTH_SOCK": "/nowhere/agent",
    "XRINGTUNE_Y": "1",
}


def test_a_chosen_few_go_to_other_hosts() -> None:
    """The job's settings and the variables of programs are forwarded; the login's own variables and secrets are not."""
    kept = set(ENVIRON) - {"HOME", "SSH_AUTH_SOCK", "XRINGTUNE_Y", "RINGTUNE_JOB_KEY", "RINGTUNE_SERVICE_ADMIN_TOKEN"}

    assert {name: ENVIRON[name] for name in kept} == forwarded(ENVIRON, RankStreams())


def test_a_terminals_name_goes_where_ranks_have_one() -> None:
    """TERM goes to ranks that have a terminal, for their programs draw on this machine's."""
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

    sent = [forwarded(environ, RankStreams(err_is_terminal=is_terminal)) for is_terminal in (True, False)]

    assert [environ, {}] == sent
