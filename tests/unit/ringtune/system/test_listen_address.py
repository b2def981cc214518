# SPDX-License-Identifier: Apache-2.0
"""Values of RINGTUNE_METRICS_PORT."""

import pytest

from ringtune.errors import ConfigError
from ringtune.settings.settings import Settings
from ringtune.system.listen_address import ListenAddress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9400", ListenAddress("127.0.0.1", 9400)),
        (" 9400 ", ListenAddress("127.0.0.1", 9400)),
        ("0.0.0.0:1", ListenAddress("0.0.0.0", 1)),
        ("10.1.2.3:65535", ListenAddress("10.1.2.3", 65535)),
        ("[::]:9400", ListenAddress("::", 9400)),
        ("[0:0::1]:9400", ListenAddress("::1", 9400)),
    ],
)
def test_a_port_alone_is_loopback_and_an_address_opens_it(text: str, expected: ListenAddress) -> None:
    """An address is read back from its own text."""
    address = ListenAddress.parse(text)

    assert expected == address
    assert address == ListenAddress.parse(str(address))


@pytest.mark.parametrize(
    "text",
    ["", "0", "65536", "-1", "http", "9400.0", "localhost:9400", "1.2.3:9400", "256.0.0.1:9400", "::1:9400", "[::1]",
     "[::g]:9400", "1.2.3.4:", "1.2.3.4:99999", "٣"],
)  # fmt: skip
def test_anything_else_stops_the_job_and_names_what_is_allowed(text: str) -> None:
    """The error has the variable, the value and the form."""
    with pytest.raises(ConfigError, match=r"RINGTUNE_METRICS_PORT=.* is not allowed; allowed: a port from 1 to 65535"):
        Settings.from_environment({"RINGTUNE_METRICS_PORT": text})


def test_settings_hold_the_address_for_all_ranks() -> None:
    """Rank 0 sends text, from which the others read the same; without the variable there is none."""
    settings = Settings.from_environment({"RINGTUNE_METRICS_PORT": "9400"})

    assert "127.0.0.1:9400" == settings.metrics_address
    assert settings == Settings.from_given(settings.given)
    assert Settings.from_environment({}).metrics_address is None


def test_each_rank_of_a_host_has_the_next_port() -> None:
    """The address stays."""
    address = ListenAddress.parse("[::]:9400").of_local_rank(3)

    assert "[::]:9403" == str(address)
