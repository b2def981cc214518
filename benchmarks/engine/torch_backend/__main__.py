# SPDX-License-Identifier: Apache-2.0
"""Collectives, training and generation by torch.distributed, over Gloo and over the backend "ringtune", in one job.

    python -m benchmarks.engine.torch_backend [--ranks N] [--hosts N --link RATE] [--form python] [--rounds N] [WHAT...]

Both backends take turns in each round; a row has the medians, and the median ratio with its quartiles. Several hosts
are network namespaces of this machine, which need root.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.engine.torch_backend.questions import QUESTIONS
from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import INTERFACE, joined_hosts, parse_rate

LAUNCH_LIMIT_S = 3600.0


@contextmanager
def launching(ranks: int, hosts: int, link: str) -> Iterator[list[str]]:
    """Give the command that starts ranks, to which a program's is added: on this machine, or on hosts in namespaces."""
    if hosts == 1:
        yield [sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), "--no-prefix-output"]
        return
    with joined_hosts(hosts, parse_rate(link)) as network:
        yield ["env", f"GLOO_SOCKET_IFNAME={INTERFACE}", *network.run_command(ranks)]


def main() -> None:
    """Start the ranks, which print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="*", default=list(QUESTIONS), metavar="|".join(QUESTIONS), help="default: all")
    parser.add_argument("--form", choices=["compiled", "python"], default="compiled", help="compiled where built")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=1, help="hosts with an even share of the ranks")
    parser.add_argument("--link", default="1gbit", help="rate of each host's link; default: 1gbit")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    if unknown := set(given.what) - set(QUESTIONS):
        parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(QUESTIONS)}")
    program = [sys.executable, "-m", "benchmarks.engine.torch_backend.rank", given.form, str(given.rounds), *given.what]
    environment = BenchEnvironment(given.ranks, Path(), os.environ).cleaned
    with launching(given.ranks, given.hosts, given.link) as start:
        finished = subprocess.run([*start, *program], check=False, env=environment, timeout=LAUNCH_LIMIT_S)
    raise SystemExit(finished.returncode)


if __name__ == "__main__":
    main()
