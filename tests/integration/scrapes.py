# SPDX-License-Identifier: Apache-2.0
"""A program's metrics as Prometheus reads them: parsed by prometheus-client and checked by promtool."""

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

DEADLINE_S = 300.0
POLL_S = 0.1


@dataclass(frozen=True)
class Scrape:
    """One answer.

    Attributes:
        text: The exposition as it came.
        families: The metrics, by name.
    """

    text: str
    families: Mapping[str, Metric]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sum of the series of a name that have these labels, or None if there are none."""
        samples = [sample for family in self.families.values() for sample in family.samples]
        values = [sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items()]
        return sum(values) if values else None

    def label(self, name: str, label: str) -> str:
        """Return a label of the first series of a name."""
        samples = [sample for family in self.families.values() for sample in family.samples if sample.name == name]
        return samples[0].labels[label]


def scrape(url: str) -> Scrape:
    """Read the metrics at a URL; raises OSError when no server is there."""
    with urllib.request.urlopen(url, timeout=60) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=")
        text = reply.read().decode()
    return Scrape(text, {family.name: family for family in text_string_to_metric_families(text)})


def scrape_until(url: str, is_enough: Callable[[Scrape], object]) -> Scrape:
    """Read the metrics at a URL until they are as they should be; a server that is not there yet is no error."""
    end_s = time.monotonic() + DEADLINE_S
    newest: Scrape | OSError | None = None
    while time.monotonic() < end_s:
        try:
            newest = scrape(url)
            if is_enough(newest):
                return newest
        except OSError as error:
            newest = error
        time.sleep(POLL_S)
    text = newest.text if isinstance(newest, Scrape) else repr(newest)
    raise AssertionError(f"{url} did not become what was waited for within {DEADLINE_S:.0f} s:\n{text}")


def debian_program(name: str) -> str:
    """Return the path of one of Prometheus's programs, or skip where it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"NOT RUN: {name} is not there (`make system-packages` brings it)")
    return path


def promtool(*arguments: str, text: str | None = None) -> str:
    """Run promtool, which must find no fault, and return its output."""
    finished = subprocess.run(
        [debian_program("promtool"), *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert 0 == finished.returncode, finished.stdout + finished.stderr
    return finished.stdout
