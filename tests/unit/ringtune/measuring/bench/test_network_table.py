# SPDX-License-Identifier: Apache-2.0
"""The table of results between hosts."""

from rich.console import Console

from ringtune.measuring.bench.host_links import HostLinks
from ringtune.measuring.bench.network_table import make_network_table, wire_note
from ringtune.measuring.bench.results import Summary

WIRE = HostLinks(4, 2, 10**9)


def test_ways_are_shown_as_shares_of_the_wire() -> None:
    """Twice the time of the wire is half of it."""
    twice_us = 2 * WIRE.hierarchical_us(1 << 20)
    console = Console(width=120)

    with console.capture() as capture:
        console.print(
            make_network_table([Summary("", 1 << 20, "hierarchical", twice_us, twice_us, None, None)], WIRE, 3)
        )

    lines = capture.get().splitlines()
    assert "4 ranks on 2 hosts, 1 Gbit/s, 3 rounds" in lines[0]
    assert ["hierarchical", "17.5", "17.5", "75", "50"] == lines[-2].replace("│", " ").split()
    assert ["1", "MiB", "wire,", "ring", "13.2"] == lines[-4].replace("│", " ").split()


def test_the_note_names_the_payload() -> None:
    """The note has the payload as a rate, and as a share of the link's."""
    assert "119.6 MB/s of payload per link and direction, 95.6 % of the rate" in wire_note(WIRE)
