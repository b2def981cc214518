# SPDX-License-Identifier: Apache-2.0
"""Names of this machine."""

import socket

import pytest

from ringtune.launch.addresses import is_this_machine


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", socket.gethostname()])
def test_this_machine_is_known(host: str) -> None:
    """This machine's names and addresses need no remote shell."""
    assert is_this_machine(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid", "ada@localhost", "x" * 300])
def test_others_are_not(host: str) -> None:
    """Foreign addresses, unknown names, and this machine as somebody else, are reached by the remote shell."""
    assert not is_this_machine(host)
