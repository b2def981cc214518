# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, from Debian's package, with the repository's rules."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.jobs import REPOSITORY
from tests.integration.ports import free_port
from tests.integration.scrapes import debian_program

SCRAPE_INTERVAL = "2s"  # also the timeout of a scrape, since a busy job answers late
WINDOW = "5m"
"""Range of a rate in queries: all scrapes of a test."""
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus, at a URL."""

    url: str

    def query(self, expression: str) -> list[Any]:
        """Return the series that an expression gives now; a fault in it fails the test."""
        return list(self._ask("query", query=expression)["result"])

    def alerts(self) -> dict[str, str]:
        """Return the alerts that are pending or firing, by name."""
        return {alert["labels"]["alertname"]: alert["state"] for alert in self._ask("alerts")["alerts"]}

    def wait_for(self, expression: str) -> list[Any]:
        """Return the series of an expression once there are some."""
        end_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < end_s:
            found = self.query(expression)
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"Prometheus had nothing for {expression} within {DEADLINE_S:.0f} s")

    def _ask(self, what: str, **parameters: str) -> Any:
        request = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, Sequence[str]]) -> Iterator[Prometheus]:
    """Run a Prometheus while the block runs.

    Args:
        folder: For its config and data.
        targets: Addresses to scrape, by the names that the repository's config gives the jobs.
    """
    config = yaml.safe_load((REPOSITORY / "dashboards/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL}
    config["rule_files"] = [str(REPOSITORY / "dashboards/prometheus" / name) for name in config["rule_files"]]
    names = [job["job_name"] for job in config["scrape_configs"]]
    config["scrape_configs"] = [
        {"job_name": name, "static_configs": [{"targets": list(targets[name])}]} for name in names
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    port = free_port()
    command = [
        debian_program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log)
    try:
        running = Prometheus(f"http://127.0.0.1:{port}")
        _wait_until_ready(running, process, folder / "prometheus.log")
        yield running
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def _wait_until_ready(running: Prometheus, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not _is_ready(running):
        text = log.read_text(encoding="utf-8")
        assert time.monotonic() < end_s and process.poll() is None, f"Prometheus did not start:\n{text}"  # noqa: PT018
        time.sleep(0.1)


def _is_ready(running: Prometheus) -> bool:
    try:
        with urllib.request.urlopen(f"{running.url}/-/ready", timeout=60):
            return True
    except OSError:
        return False
