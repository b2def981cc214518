# SPDX-License-Identifier: Apache-2.0
"""The how-to page of Cloudera can be followed: with its documented calls, workers being hosts of their own."""

from pathlib import Path

from tests.e2e.documented_commands import blocks_of, file_of
from tests.house.source_tree import REPOSITORY
from tests.integration.hosts import needs_hosts
from tests.integration.remote_shells import needs_ssh
from tests.platforms.cloudera.workbench import workbench

pytestmark = needs_hosts

PAGE = REPOSITORY / "docs" / "howto" / "cloudera.md"
FIRST_JOB = REPOSITORY / "docs" / "howto" / "first_job.md"
PLACE = """
import socket
print(f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}", flush=True)
"""

FAILS = """
import ringtune.torch as hvd
hvd.init()
assert hvd.rank() == 0
hvd.join()
"""


def write_project(folder: Path) -> None:
    """Write the page's programs into the project's folder."""
    for block in blocks_of(PAGE):
        if block.duty == "file":
            (folder / block.about).write_text(block.text, encoding="utf-8")
    (folder / "train.py").write_text(file_of(FIRST_JOB, "train.py") + PLACE, encoding="utf-8")


def ranks_in(text: str) -> list[str]:
    """Return the lines in which ranks say where they are."""
    return sorted(line[line.index("rank ") :] for line in text.splitlines() if "rank " in line and ", local " in line)


EXPECTED = ["rank 0 of 2, local 0 of 1", "rank 1 of 2, local 0 of 1"]


def test_workers_get_their_ranks_on_arrival(tmp_path: Path) -> None:
    """No ssh, no address of rank 0, no rank: a key and the session's address are enough."""
    write_project(tmp_path)

    with workbench(tmp_path, 2) as project:
        finished = project.run_session("train_on_workers.py")
        output = project.output_of_workers()

    assert 0 == finished.code, finished.text + output
    assert EXPECTED == ranks_in(output), finished.text + output
    assert "2 ranks, loss " in output


def test_a_failure_of_a_worker_is_the_sessions(tmp_path: Path) -> None:
    """The program ends with an error, and names the worker that was lost."""
    write_project(tmp_path)
    (tmp_path / "train.py").write_text(
        "import ringtune.torch as hvd\nhvd.init()\nassert hvd.rank() == 0\nhvd.join()\n", "utf-8"
    )

    with workbench(tmp_path, 2) as project:
        finished = project.run_session("train_on_workers.py")

    assert 1 == finished.code, finished.text
    assert "the job has failed: " in finished.stderr, finished.text
    assert "rank 1 (host " in finished.stderr, finished.text


@needs_ssh
def test_the_launcher_starts_ranks_by_ssh(tmp_path: Path) -> None:
    """The launcher reaches the engines on port 2222, as horovodrun does."""
    write_project(tmp_path)

    with workbench(tmp_path, 2) as project, project.ssh_servers():
        finished = project.run_session("train_by_ssh.py")

    assert 0 == finished.code, finished.text
    assert EXPECTED == ranks_in(finished.stdout), finished.text
