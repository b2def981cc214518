# SPDX-License-Identifier: Apache-2.0
"""Variables that Kubernetes sets for a service beside a container are nobody's settings."""

import pytest

from ringtune.settings.kubernetes_links import service_links
from ringtune.settings.settings import Settings, find_slips

RINGTUNE = {
    "RINGTUNE_SERVICE_HOST": "10.96.0.7",
    "RINGTUNE_SERVICE_PORT": "80",
    "RINGTUNE_SERVICE_PORT_HTTP": "80",
    "RINGTUNE_PORT": "tcp://10.96.0.7:80",
    "RINGTUNE_PORT_80_TCP": "tcp://10.96.0.7:80",
    "RINGTUNE_PORT_80_TCP_PROTO": "tcp",
    "RINGTUNE_PORT_80_TCP_PORT": "80",
    "RINGTUNE_PORT_80_TCP_ADDR": "10.96.0.7",
}
RINGTUNE_SERVICE = {
    "RINGTUNE_SERVICE_SERVICE_HOST": "10.96.0.8",
    "RINGTUNE_SERVICE_SERVICE_PORT": "8470",
    "RINGTUNE_SERVICE_PORT": "tcp://10.96.0.8:8470",
    "RINGTUNE_SERVICE_PORT_8470_TCP": "tcp://10.96.0.8:8470",
    "RINGTUNE_SERVICE_PORT_8470_TCP_PROTO": "tcp",
    "RINGTUNE_SERVICE_PORT_8470_TCP_PORT": "8470",
    "RINGTUNE_SERVICE_PORT_8470_TCP_ADDR": "10.96.0.8",
}


@pytest.mark.parametrize("links", [RINGTUNE, RINGTUNE_SERVICE], ids=["ringtune", "ringtune-service"])
def test_links_are_told_from_settings(links: dict[str, str]) -> None:
    """All of a service's links are found, and no other variable."""
    assert frozenset(links) == service_links({**links, "RINGTUNE_SERVICE_DATABASE_URL": "sqlite://", "PATH": "/bin"})


@pytest.mark.parametrize("links", [RINGTUNE, RINGTUNE_SERVICE], ids=["ringtune", "ringtune-service"])
def test_a_job_beside_a_service_is_warned_of_nothing(links: dict[str, str]) -> None:
    """A misspelt variable still gets its sentence."""
    (slip,) = find_slips({**links, "RINGTUNE_TIMELIN": "x"})

    assert slip.startswith("RINGTUNE_TIMELIN is not a variable of ringtune")


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({"RINGTUNE_SERVICE_HOST": "0.0.0.0"}, {"RINGTUNE_SERVICE_HOST"}),
        ({"RINGTUNE_SERVICE_PORT": "8470"}, {"RINGTUNE_SERVICE_PORT"}),
        ({"RINGTUNE_PORT": "80"}, set(RINGTUNE)),
    ],
    ids=["host", "port", "no address"],
)
def test_a_variable_with_another_value_is_the_users(changes: dict[str, str], own: set[str]) -> None:
    """A pod's own variable replaces the link of that name; without an address there are no links."""
    environ = {**RINGTUNE, **changes}

    assert frozenset(environ) - own == service_links(environ)


def test_a_job_beside_a_service_of_metrics_starts() -> None:
    """The address of a service called ringtune-metrics has the name of a setting."""
    link = {"RINGTUNE_METRICS_PORT": "tcp://10.96.0.9:9400"}

    assert Settings.from_environment(link).metrics_address is None


def test_addresses_of_version_six_are_links() -> None:
    """The host stands in brackets in an address, and without them by itself."""
    links = {
        "RINGTUNE_SERVICE_HOST": "fd00::7",
        "RINGTUNE_SERVICE_PORT": "80",
        "RINGTUNE_PORT": "tcp://[fd00::7]:80",
    }

    assert frozenset(links) == service_links(links)
