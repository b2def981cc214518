# SPDX-License-Identifier: Apache-2.0
"""One run of `ringtune bench --hosts`: the engine both ways and its peers, beside the wire's limit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rich.console import Console

from ringtune.errors import ConfigError

from .comparison import NO_PEER, Request, measure, write_results
from .contestants import PEERS, BenchEnvironment
from .host_links import HostLinks
from .network import Network, check_hosts, joined_hosts, parse_rate
from .network_contestants import HIERARCHICAL, RING, find_delay_switch, find_network_contestants
from .network_table import make_network_table, wire_note
from .results import ResultRow, summarize
from .text_formats import FORMATS, print_text
from .timing import Scheme


@dataclass(frozen=True)
class Topology:
    """Hosts and links that the command line asked to measure between.

    Attributes:
        hosts: Number of hosts among which the ranks are divided.
        link: The rate of each host's link, in words of `tc`.
        delay_ms: Time from one host to another, beside that of the rate; 0 adds none.
        algorithms: Ways of the engine to measure: values of `RINGTUNE_ALLREDUCE_ALGORITHM`.
    """

    hosts: int
    link: str
    delay_ms: float = 0.0
    algorithms: tuple[str, ...] = (RING, HIERARCHICAL)


def run_network_bench(
    request: Request, topology: Topology, environ: Mapping[str, str], output: Console, progress: Console
) -> None:
    """Measure between hosts, print the table and write the file.

    Args:
        request: Measurement that the command line asked for.
        topology: Hosts and links to measure between.
        environ: The process's environment.
        output: Console for the table.
        progress: Console for the progress bar and notes.

    Raises:
        ConfigError: If the request cannot be measured here.
        RingtuneError: If a contestant fails, or the hosts cannot be made.
    """
    request.check()
    if request.is_traced:
        raise ConfigError("--trace is for the ranks of one host; leave it out, or leave out --hosts and --link")
    wire = HostLinks(request.ranks, topology.hosts, parse_rate(topology.link), topology.delay_ms)
    check_hosts(wire.hosts, wire.ranks)
    switch = find_delay_switch(topology.delay_ms, BenchEnvironment(request.ranks, request.environments, environ, {}))
    with joined_hosts(wire.hosts, wire.rate_bits_per_s, switch) as network:
        rows, missing = _measure_between(network, request, topology, environ, progress)
    summaries = summarize(rows, "", PEERS)
    write_results(request, missing, summaries, rows)
    if request.text_format != FORMATS[0]:
        print_text(output, request.text_format, summaries, request.ranks)
        return
    output.print(make_network_table(summaries, wire, request.rounds))
    output.print(wire_note(wire), soft_wrap=True, highlight=False)


def _measure_between(
    network: Network, request: Request, topology: Topology, environ: Mapping[str, str], progress: Console
) -> tuple[list[ResultRow], list[str]]:
    """Return the rows, and a note for each peer that is not measured."""
    surroundings = BenchEnvironment(request.ranks, request.environments, environ, request.settings)
    wanted = [name for name in request.peers or PEERS if name != NO_PEER]
    contestants, missing = find_network_contestants(wanted, topology.algorithms, surroundings, network)
    for note in missing:
        progress.print(note, soft_wrap=True, highlight=False, markup=False)
    scheme = Scheme.between_hosts(request.sizes_bytes, request.workloads, topology.delay_ms)
    rows, too_slow = measure(contestants, scheme, request.rounds, surroundings, progress)
    placed = [replace(row, hosts=len(network.hosts), link_bits_per_s=network.rate_bits_per_s) for row in rows]
    return placed, [*missing, *too_slow]
