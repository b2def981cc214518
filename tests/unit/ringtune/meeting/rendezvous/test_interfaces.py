# SPDX-License-Identifier: Apache-2.0
"""The address that leads to the other hosts."""

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous import interfaces
from ringtune.meeting.rendezvous.interfaces import link_bits_per_s, meeting_address, own_networks, route_address

BRIDGE = "172.17.0.1/16"


def test_the_route_to_this_host_is_itself() -> None:
    """Loopback leads to loopback."""
    assert "127.0.0.1" == route_address("127.0.0.1")


def test_a_name_that_does_not_resolve_is_an_error() -> None:
    """The name is in the text."""
    with pytest.raises(ConfigError, match=r"no\.such\.host\.invalid"):
        route_address("no.such.host.invalid")


def test_own_networks_have_prefixes_and_no_loopback() -> None:
    """A machine's networks have this form, whichever they are."""
    for network in own_networks():
        assert "/" in network
        assert not network.startswith("127.")


@pytest.mark.parametrize(
    ("own", "others", "address"),
    [
        (["10.0.0.1/24"], [["10.0.0.2/24"], ["10.0.0.3/24"]], "10.0.0.1"),
        ([BRIDGE, "10.0.0.1/24"], [[BRIDGE, "10.0.0.2/24"]], "10.0.0.1"),
        (["10.9.0.1/24", "10.0.0.1/24"], [["10.9.0.2/24", "10.0.0.2/24"], ["10.0.0.3/24"]], "10.0.0.1"),
    ],
)
def test_the_address_is_one_that_all_can_reach(own: list[str], others: list[list[str]], address: str) -> None:
    """The first network that every other host shares, and a bridge that each has for itself is none."""
    assert address == meeting_address(own, others)


def test_hosts_without_a_common_network_need_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default route's address is taken; without a route the error shows this machine's networks."""
    monkeypatch.setattr(interfaces, "_default_address", lambda: "10.1.0.1")
    assert "10.1.0.1" == meeting_address(["10.1.0.1/24"], [["10.2.0.1/24"]])
    monkeypatch.setattr(interfaces, "_default_address", lambda: "")

    with pytest.raises(ConfigError, match=r"10\.1\.0\.1/24.*10\.2\.0\.1/24"):
        meeting_address(["10.1.0.1/24"], [["10.2.0.1/24"]])


def test_loopback_declares_no_speed() -> None:
    """Loopback has no speed, and neither has an address that no interface has."""
    assert link_bits_per_s("127.0.0.1") is None
    assert link_bits_per_s("192.0.2.1") is None
