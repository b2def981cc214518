# SPDX-License-Identifier: Apache-2.0
"""Processes that were started without standard input, output or error keep these numbers free of the engine's files."""

from pathlib import Path

import pytest

from tests.integration.jobs import program, ringtune, run_job
from tests.integration.worlds import explicit, run_all

PROGRAM = "prints_into_closed_streams"
FINE = "0 wrong; "


@pytest.mark.parametrize("closed", [(0, 1, 2), (1, 2), (2,)])
def test_what_c_code_prints_goes_nowhere_near_the_gradients(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """The null device takes the place of closed streams, at every init(); sums stay right and no rank hangs."""
    command = program(PROGRAM, str(tmp_path / "report"), *map(str, closed))
    address = f"unix:@ringtune-closed-{tmp_path.name}"

    finished = run_all(
        [command] * 2, [explicit(rank, 2, address, RINGTUNE_TIMELINE=str(tmp_path / "t.json")) for rank in range(2)]
    )

    assert [0, 0] == [job.code for job in finished], [job.text for job in finished]
    for rank in range(2):
        report = (tmp_path / f"report.{rank}").read_text(encoding="utf-8")
        assert report.startswith(FINE), report
        streams = report.removeprefix(FINE).split()
        assert ["/dev/null"] * len(closed) == [streams[number] for number in closed]
        assert "/dev/null" == streams[5]
        assert not any("memfd" in stream or "socket" in stream or ".json" in stream for stream in streams)
    assert "warns" not in (tmp_path / "t.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_launcher_without_streams_runs_its_job(tmp_path: Path, redirection: str) -> None:
    """A launcher's pipes and its ranks' output take no number of a missing stream."""
    command = ringtune("run", "-np", "2", *program(PROGRAM, str(tmp_path / "report")))

    finished = run_job(["sh", "-c", f'exec "$@" {redirection}', "sh", *command])

    assert 0 == finished.code, finished.text
    assert all((tmp_path / f"report.{rank}").read_text(encoding="utf-8").startswith(FINE) for rank in range(2))
