# SPDX-License-Identifier: Apache-2.0
"""Machines that tune one command together, each a process: one service hands out the configs of one study."""

import re
import signal
import sys
from pathlib import Path

from tests.integration.jobs import ringtune, run_job, started
from tests.integration.service.server_process import ServerProcess, serving
from tests.waiting import wait_until

SCRIPT = """
import pathlib, sys, time
folder, bucket = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10000
with open(folder / 'launches', 'a') as launches: launches.write(f'{bucket}\\n')
best = folder.parent / 'best'
if bucket != 10000 and not best.exists(): best.write_text(str(bucket))
while bucket != 10000 and (folder / 'hang').exists(): time.sleep(0.02)
ms = 9 if bucket == 10000 else 5 if best.read_text() == str(bucket) else 8
for step in range(9): print('took', ms + 0.01 * (step % 3), 'ms', flush=True)
"""
"""A command whose first candidate, on any machine, is the best one; candidates hang while there is a file `hang`."""
KNOBS = r"""
knobs:
  - {name: bucket, type: int, low: 1, high: 9999, default: 10000, pass: {placeholder: '@bucket@'}}
score_regex: took (\S+) ms
"""
RENEWALS = 4
"""Renewals that take longer than one lease."""


class Machine:
    """A machine: its folder, and the command line, which is the same for all but for the folder.

    Attributes:
        words: The command line of `ringtune tune`.
    """

    def __init__(self, folder: Path, name: str, server: ServerProcess, *options: str) -> None:
        """Prepare a machine below `folder`."""
        self._folder = folder / name
        self._folder.mkdir()
        knobs = folder / "knobs.yaml"
        knobs.write_text(KNOBS, encoding="utf-8")
        script = folder / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        files = ("--knobs", str(knobs), "--output", str(self._folder / "out"))
        launch = ("sh", "-c", f"exec {sys.executable} {script} $HERE @bucket@")
        shared = ("--shared", "--max-samples", "4", "--pairs", "2", "--designer", "random", *options)
        self.words = ringtune("tune", "--target", "command", *files, *shared, "--", *launch)
        self.environ = {"AUTOTUNE_SERVICE_URL": server.url, "AUTOTUNE_LOCK": "0", "HERE": str(self._folder)}
        self.hang = self._folder / "hang"

    @property
    def candidates(self) -> list[str]:
        """Return the buckets of the launches so far, each once, without the default's."""
        path = self._folder / "launches"
        launched = path.read_text(encoding="utf-8").split() if path.exists() else []
        return [bucket for bucket in dict.fromkeys(launched) if bucket != "10000"]


def figure(server: ServerProcess, name: str) -> float:
    """Return a figure of the service's metrics, 0 where it has none."""
    text = server.client.get("/metrics").text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def renewals(server: ServerProcess) -> float:
    """Return the number of renewals that succeeded."""
    lease = "/v1/studies/{study_id}/suggestions/{trial_id}/lease"
    return figure(server, f'ringtune_requests_total{{method="PUT",route="{lease}",status="200"}}')


def chosen(text: str) -> str:
    """Return the row of the table that names the choice."""
    found = re.search(r"^chosen: (.*)$", text, re.MULTILINE)
    assert found is not None, text
    return found[1]


def test_machines_search_together_and_agree_on_the_best_config(tmp_path: Path) -> None:
    """No candidate is searched twice, but the best one, which the second machine tests as well."""
    with serving(tmp_path) as server:
        first, second = Machine(tmp_path, "first", server), Machine(tmp_path, "second", server)

        one = run_job(first.words, first.environ)
        other = run_job(second.words, second.environ)

    assert (0, 0) == (one.code, other.code), one.text + other.text
    best = chosen(one.stdout)
    assert best == chosen(other.stdout) != "keeping default"
    assert {best.split()[1]} == set(first.candidates) & set(second.candidates)
    assert f"all machines: {best}: prior: adopted in paired tests of 1 job" in one.stdout
    assert f"all machines: {best}: confirmed" in other.stdout


def test_the_config_of_a_machine_that_was_killed_is_tried_again(tmp_path: Path) -> None:
    """While its launch runs the config is its own, however long that takes; after SIGKILL another machine gets it."""
    with serving(tmp_path) as server:
        killed = Machine(tmp_path, "killed", server, "--trial-timeout-s", "60")
        other = Machine(tmp_path, "other", server)
        heir = Machine(tmp_path, "heir", server)
        killed.hang.touch()
        with started(killed.words, killed.environ) as job:
            wait_until(lambda: len(killed.candidates) == 1)
            wait_until(lambda: renewals(server) >= RENEWALS, 60.0)
            beside = run_job(other.words, other.environ)
            job.process.kill()
            job.wait()
        wait_until(lambda: figure(server, "ringtune_live_leases") == 0, 60.0)
        after = run_job(heir.words, heir.environ)

    assert (0, 0) == (beside.code, after.code), beside.text + after.text
    assert not set(killed.candidates) & set(other.candidates)
    assert killed.candidates == heir.candidates[:1]


def test_an_interrupted_machine_gives_its_config_back(tmp_path: Path) -> None:
    """After Ctrl-C no lease is left, and the service knows that the job ended early."""
    with serving(tmp_path) as server:
        machine = Machine(tmp_path, "machine", server)
        machine.hang.touch()
        with started(machine.words, machine.environ) as job:
            wait_until(lambda: len(machine.candidates) == 1)
            held = figure(server, "ringtune_live_leases")
            job.process.send_signal(signal.SIGINT)
            ended = job.wait()
        left = figure(server, "ringtune_live_leases")
        (study,) = server.client.get("/v1/studies").json()["items"]
        (seen,) = server.client.get(f"/v1/studies/{study['id']}/jobs").json()["items"]

    assert 128 + signal.SIGINT == ended.code, ended.text
    assert (1, 0) == (held, left)
    assert "ended_early" == seen["state"]


def test_a_run_without_a_service_is_refused(tmp_path: Path) -> None:
    """The message names the variable; a service that does not answer is named, too."""
    with serving(tmp_path) as server:
        machine = Machine(tmp_path, "machine", server)
    unset = run_job(machine.words, {**machine.environ, "AUTOTUNE_SERVICE_URL": ""})
    gone = run_job(machine.words, machine.environ)

    assert "set AUTOTUNE_SERVICE_URL to its URL" in unset.stderr
    assert server.url in gone.stderr
    assert 0 not in {unset.code, gone.code}
