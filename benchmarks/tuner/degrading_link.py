# SPDX-License-Identifier: Apache-2.0
"""Follow a tuned job while the link of one of its hosts becomes slower, and as fast as before.

Start it by `python -m benchmarks.tuner.degrading_link`, as root: hosts are network namespaces of this machine with one
rank each at 1 Gbit/s. The job runs with AUTOTUNE=1; its watch looks twice a second in place of twice a minute, so that
times are those of the searches and tests alone. The link changes once the watch has its reference.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import Network, joined_hosts
from ringtune.tuner.statistics.drift import REFERENCE_WINDOWS

RATE_BITS_PER_S = 10**9
POLL_S = 0.5
END_LIMIT_S = 60.0
SEARCH_S = 40
"""Seconds that the first search may take; later ones may take half of it."""


@dataclass
class Log:
    """The job's tuning log, read while it grows.

    Attributes:
        path: File of the log.
        looks: Windows of the watch since the last decision or change.
        results: Decisions so far.
    """

    path: Path
    began_s: float = field(default_factory=time.monotonic)
    looks: int = 0
    results: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    _read: int = 0

    def read(self) -> None:
        """Read new records, and print decisions."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        for line in lines[self._read :]:
            if not line.endswith("\n"):
                break
            self._read += 1
            self._take(json.loads(line))

    def _take(self, record: Mapping[str, Any]) -> None:
        if record["type"] == "sample" and record["phase"] == "watch":
            self.looks += 1
            self.config = record["config"]
            if self.looks in (1, REFERENCE_WINDOWS):
                self.say(f"watch: {record['step_ms']['median']:.0f} ms a step, skew {self.config['skew']}")
        elif record["type"] == "run":
            self.say(f"a search or check begins, skew {'skew' not in record['search_space']['fixed']} in the space")
        elif record["type"] == "adoption":
            self.say(record["verdict"])
        elif record["type"] == "result":
            self.results += 1
            self.looks = 0
            self.config = record["config"]
            self.say(f"in force: skew {self.config['skew']}")

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"{time.monotonic() - self.began_s:6.1f} s: {text}", flush=True)


@contextmanager
def training(network: Network, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the job until the end of the context."""
    hosts, lasting = len(network.hosts), folder / "lasting"
    lasting.touch()
    program = [sys.executable, "-m", "benchmarks.tuner.live.ranks.watched", str(lasting)]
    tuner = {"AUTOTUNE": "1", "AUTOTUNE_LOG": str(folder / "log"), "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOCK": "0"}
    environment = BenchEnvironment(hosts, Path(), os.environ).cleaned
    environment |= {**tuner, "AUTOTUNE_MAX_SECONDS": str(SEARCH_S), "RINGTUNE_LOG_LEVEL": "info"}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [*network.run_command(hosts), *program], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        lasting.unlink()
        process.wait(END_LIMIT_S)


def follow(hosts: int, slow_share: float, limit_s: float) -> None:
    """Change the link twice, each time once the watch has its reference, and follow the tuner's decisions."""
    with tempfile.TemporaryDirectory() as name, joined_hosts(hosts, RATE_BITS_PER_S) as network:
        log = Log(Path(name) / "log")
        rates = iter((round(slow_share * RATE_BITS_PER_S), RATE_BITS_PER_S))
        awaited: bool | None = False
        with training(network, Path(name)) as process:
            while process.poll() is None and time.monotonic() - log.began_s < limit_s:
                time.sleep(POLL_S)
                log.read()
                if log.looks < REFERENCE_WINDOWS + 5 or log.config["skew"] is not awaited:
                    continue
                rate = next(rates, None)
                if rate is None:
                    log.say("the end: the config is the first one again")
                    break
                network.set_rate(hosts - 1, rate)
                log.looks, awaited = 0, not awaited
                log.say(f"--- the link of host {hosts - 1} carries {rate / 1e9:g} Gbit/s")
        output = (Path(name) / "output").read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(line for line in output if "the links of the hosts" in line or "step times have" in line))


def main() -> None:
    """Follow one job."""
    parser = argparse.ArgumentParser(description="Follow a tuned job while a link becomes slower and recovers.")
    parser.add_argument("--hosts", type=int, default=3, help="hosts of one rank each (default: 3)")
    parser.add_argument("--slow", type=float, default=0.5, help="share of its rate that the link keeps (default: 0.5)")
    parser.add_argument("--limit-s", type=float, default=900.0, help="longest time for all of it (default: 900)")
    arguments = parser.parse_args()
    follow(arguments.hosts, arguments.slow, arguments.limit_s)


if __name__ == "__main__":
    main()
