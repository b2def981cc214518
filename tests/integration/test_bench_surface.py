# SPDX-License-Identifier: Apache-2.0
"""Recording a surface for real: a small grid, on one host and between two."""

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ringtune.measuring.bench.network_comparison import Topology
from ringtune.measuring.bench.surface import record_surface
from ringtune.measuring.bench.surface_file import JOURNAL_SUFFIX, RecordedWindow, SurfaceJournal, read_surface
from tests.integration.hosts import needs_hosts
from tests.integration.small_recording import request
from tests.waiting import PAUSE_S

RECORDER = (sys.executable, "-m", "tests.integration.programs.records_surface")


def journal_of(folder: Path) -> list[RecordedWindow]:
    """Return the windows that a recording has written so far."""
    return SurfaceJournal(folder / f"s.gz{JOURNAL_SUFFIX}", {}).windows


def test_a_recording_that_was_killed_goes_on_where_it_stood(tmp_path: Path) -> None:
    """No window is measured again, and every config has one of each repeat."""
    with subprocess.Popen([*RECORDER, str(tmp_path)], stdout=subprocess.DEVNULL) as recorder:
        journal = tmp_path / f"s.gz{JOURNAL_SUFFIX}"
        while recorder.poll() is None and not (journal.exists() and 4 <= journal.read_bytes().count(b"\n")):
            time.sleep(PAUSE_S)
        recorder.send_signal(signal.SIGKILL)
    before = journal_of(tmp_path)

    is_complete = record_surface(request(tmp_path), None, os.environ, Console(file=io.StringIO()))

    _, configs = read_surface(tmp_path / "s.gz")
    windows = [window for config in configs for window in config["windows"]]
    kept = {(window["launch"], window["at_s"], tuple(window["step_ms"])) for window in windows}
    launches = {window["launch"] for window in windows}
    assert is_complete
    assert not (tmp_path / f"s.gz{JOURNAL_SUFFIX}").exists()
    assert 2 * 2 * 2 == len(configs)  # the default's values beside the grid's, and both algorithms
    assert {(window.launch, window.at_s, window.step_ms) for window in before} <= kept
    assert len(configs) * 2 + len(launches) == len(windows)


def test_the_time_limit_ends_a_recording(tmp_path: Path) -> None:
    """A recording that reaches its limit is incomplete and has no file."""
    limited = replace(request(tmp_path), minutes=1e-6)

    assert not record_surface(limited, None, os.environ, Console(file=io.StringIO()))
    assert not (tmp_path / "s.gz").exists()


@needs_hosts
def test_a_surface_is_recorded_between_hosts(tmp_path: Path) -> None:
    """A surface between hosts has the hierarchical switch in its grid."""
    wanted = request(tmp_path, ranks=4)

    assert record_surface(wanted, Topology(2, "1gbit"), os.environ, Console(file=io.StringIO()))

    header, configs = read_surface(tmp_path / "s.gz")
    assert ([2, 2], 10**9) == (header["ranks_per_host"], header["link_bits_per_s"])
    assert {False} == {c["config"].get("hierarchical_allreduce", False) for c in configs}
    assert any("hierarchical_allreduce" in config["config"] for config in configs)
