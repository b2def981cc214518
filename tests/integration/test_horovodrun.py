# SPDX-License-Identifier: Apache-2.0
"""Command lines of Horovod's own documentation, word for word, and the distribution that has `horovodrun`."""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import Finished, program, run_job
from tests.integration.remote_shells import write_rsh

COMPAT = REPOSITORY / "native" / "horovodrun"
# Says which of the variables that Horovod's options set have reached the rank.
_TRAIN = """
import json, os
prefixes = ("HOROVOD_", "AUTOTUNE", "RINGTUNE_TIMELINE", "RINGTUNE_TRANSPORT")
print(json.dumps({name: value for name, value in os.environ.items() if name.startswith(prefixes)}))
"""
# The options that the launcher gives to ssh are dropped, and the rest is called as the stand-in for a remote shell is.
_SSH = """#!/bin/sh
while :; do
  case "$1" in
    -T) shift;;
    -o) shift 2;;
    -p|-i) echo "$1 $2" >> "{folder}/ssh.options"; shift 2;;
    *) break;;
  esac
done
exec "{folder}/rsh" "$@"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with train.py, a hostfile, an ssh that stays on this machine, and the command `horovodrun`."""
    folder = tmp_path_factory.mktemp("horovod")
    (folder / "train.py").write_text(_TRAIN, encoding="utf-8")
    (folder / "myhostfile").write_text("aa slots=2\nbb slots=2\ncc slots=2\n", encoding="utf-8")
    write_rsh(folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(_SSH.format(folder=folder), encoding="utf-8")
    (folder / "bin" / "horovodrun").write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from ringtune.cli import horovodrun; horovodrun()' \"$@\"\n",
        encoding="utf-8",
    )
    (folder / "bin" / "python").symlink_to(sys.executable)
    for name in ("ssh", "horovodrun"):
        (folder / "bin" / name).chmod(0o755)
    return folder


def run_line(folder: Path, line: str, environ: Mapping[str, str] | None = None) -> Finished:
    """Run a line as a user's shell does, in the folder."""
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    return run_job(["bash", "-c", f"cd {shlex.quote(str(folder))} && {line}"], {"PATH": path, **(environ or {})})


def said(finished: Finished) -> list[dict[str, Any]]:
    """Return each rank's environment, as the rank printed it."""
    assert 0 == finished.code, finished.text
    rows = [json.loads(line[line.index("{") :]) for line in finished.stdout.splitlines()]
    return sorted(rows, key=lambda row: int(row["HOROVOD_RANK"]))


@pytest.mark.parametrize(
    ("line", "ranks", "variables"),
    [
        ("horovodrun -np 4 python train.py", 4, {}),
        ("horovodrun -np 4 -H localhost:4 python train.py", 4, {"HOROVOD_HOSTNAME": "localhost"}),
        ("horovodrun -np 4 --gloo python train.py", 4, {}),
        (
            (
                "HOROVOD_TIMELINE=/path/to/timeline.json HOROVOD_TIMELINE_MARK_CYCLES=1 \\\n"
                "    horovodrun -np 4 python train.py"
            ),
            4,
            {"HOROVOD_TIMELINE": "/path/to/timeline.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"},
        ),
        (
            "HOROVOD_FUSION_THRESHOLD=33554432 horovodrun -np 4 python train.py",
            4,
            {"HOROVOD_FUSION_THRESHOLD": "33554432"},
        ),
        ("HOROVOD_CYCLE_TIME=3.5 horovodrun -np 4 python train.py", 4, {"HOROVOD_CYCLE_TIME": "3.5"}),
        (
            "horovodrun -np 4 --autotune --autotune-log-file /tmp/autotune_log.csv python train.py",
            4,
            {"AUTOTUNE": "1", "AUTOTUNE_LOG": "/tmp/autotune_log.csv"},
        ),
        (
            "horovodrun -np 4 --autotune --cache-capacity 1024 --no-hierarchical-allgather python train.py",
            4,
            {"AUTOTUNE": "1", "HOROVOD_CACHE_CAPACITY": "1024", "HOROVOD_HIERARCHICAL_ALLGATHER": "0"},
        ),
        (
            (
                "horovodrun -np 4 --autotune \\\n    --autotune-warmup-samples 5 --autotune-steps-per-sample 20 "
                "--autotune-bayes-opt-max-samples 40 \\\n    python train.py"
            ),
            4,
            {
                "AUTOTUNE": "1",
                "AUTOTUNE_MAX_SAMPLES": "40",
                "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "20",
                "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "5",
            },
        ),
    ],
)
def test_a_line_of_horovods_documentation_runs(folder: Path, line: str, ranks: int, variables: dict[str, str]) -> None:
    """On one machine: the ranks are there, and the options have reached each."""
    finished = run_line(folder, line)

    rows = said(finished)
    assert [str(rank) for rank in range(ranks)] == [row["HOROVOD_RANK"] for row in rows]
    assert all(variables.items() <= row.items() for row in rows), rows
    assert "" == finished.stderr


def test_an_option_without_a_counterpart_is_one_warning(folder: Path) -> None:
    """Once for the job, not for each rank; the job runs."""
    finished = run_line(folder, "horovodrun -np 4 --autotune --autotune-gaussian-process-noise 0.75 python train.py")

    assert 4 == len(said(finished))
    (warning,) = finished.stderr.splitlines()
    assert "--autotune-gaussian-process-noise has no effect: the tuner estimates the noise" in warning


@pytest.mark.parametrize(
    ("line", "hosts", "options"),
    [
        (
            "horovodrun -np 16 -H server1:4,server2:4,server3:4,server4:4 python train.py",
            {f"server{number}": 4 for number in range(1, 5)},
            set(),
        ),
        ("horovodrun -np 6 -hostfile myhostfile python train.py", {"aa": 2, "bb": 2, "cc": 2}, set()),
        (
            "horovodrun -np 16 -H host1:4,host2:4,host3:4,host4:4 -p 12345 -i train.py python train.py",
            {f"host{number}": 4 for number in range(1, 5)},
            {"-p 12345", "-i train.py"},
        ),
    ],
)
def test_a_line_for_several_hosts_runs(folder: Path, line: str, hosts: dict[str, int], options: set[str]) -> None:
    """Each host has its ranks; ssh gets its options. Loopback is named, for these hosts have no address here."""
    finished = run_line(folder, line.replace(" -np", " --network-interface lo -np"), {"HOROVOD_START_TIMEOUT": "300"})

    rows = said(finished)
    file = folder / "ssh.options"
    assert hosts == dict(Counter(row["HOROVOD_HOSTNAME"] for row in rows))
    assert options == (set(file.read_text(encoding="utf-8").splitlines()) if options else set())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "horovodrun -np 2 --min-np 4 --max-np 12 --host-discovery-script discover_hosts.sh python train.py",
            "--min-np 4, -np 2, --max-np 12 are not in order",
        ),
        ("horovodrun -np 2 --reset-limit 3 python train.py", "--reset-limit is about elastic jobs, and this is none"),
        ("horovodrun -np 2 --min-np 1 --mpi python train.py", "--min-np: mpirun starts a fixed number of ranks"),
        ("horovodrun --max-np 2 python train.py", "the smallest number of workers is missing; give it with --min-np"),
        ('horovodrun --mpi-args="-gpu" python train.py', "the number of ranks is missing; give it with -np"),
        ("horovodrun -np 2 --gloo --mpi python train.py", "--gloo and --mpi name two launchers"),
        ("horovodrun -np 2 --binding-args='-bind-to core' python train.py", "or add --mpi"),
        ("horovodrun -np 2 --jsrun python train.py", "jsrun -n N COMMAND"),
        ("horovodrun python train.py", "the number of ranks is missing; give it with -np"),
        (
            "horovodrun -np 2 --fusion-treshold-mb 32 python train.py",
            "did you mean --fusion-threshold-mb? See ringtune run",
        ),
    ],
)
def test_a_line_that_cannot_run_is_answered_with_a_sentence(folder: Path, line: str, words: str) -> None:
    """Code 2 and one line, before anything starts."""
    finished = run_line(folder, line)

    assert 2 == finished.code, finished.text
    assert words in finished.stderr
    assert 1 == len(finished.stderr.strip().splitlines())


@pytest.mark.parametrize("line", ["horovodrun --check-build", "horovodrun -cb"])
def test_the_build_is_reported_in_horovods_form(folder: Path, line: str) -> None:
    """Scripts look for lines such as `[X] PyTorch`; no number of ranks is needed."""
    finished = run_line(folder, line)

    lines = finished.stdout.splitlines()
    assert 0 == finished.code, finished.text
    assert lines[0].startswith("ringtune v")
    assert ["Available Frameworks:", "Available Controllers:", "Available Tensor Operations:"] == [
        line for line in lines if line.startswith("Available")
    ]
    assert {"    [X] PyTorch", "    [X] ringtune", "    [ ] Gloo", "    [ ] DDL", "    [ ] CCL"} <= set(lines)


def test_variables_reach_ranks_on_other_hosts_only_if_they_are_sent(folder: Path) -> None:
    """A sent variable has its value or the launcher's; a login there has no other variable of this environment."""
    line = (
        "horovodrun -np 2 --network-interfaces lo -H far1,far2 --env COLOUR=red --env SHAPE "
        "sh -c 'echo $COLOUR $SHAPE $SIZE_OF_IT'"
    )

    finished = run_line(folder, line, {"SHAPE": "round", "SIZE_OF_IT": "large", "HOROVOD_START_TIMEOUT": "300"})

    assert 0 == finished.code, finished.text
    assert ["[0] red round", "[1] red round"] == sorted(finished.stdout.splitlines())


def test_output_goes_to_files_and_to_the_terminal(folder: Path, tmp_path: Path) -> None:
    """Files get the ranks' output as with Horovod on Gloo; stamps of lines are on the terminal, not in the files."""
    line = (
        f"horovodrun -np 2 --output-filename {tmp_path}/out --prefix-output-with-timestamp "
        "sh -c 'echo out $HOROVOD_RANK; echo err $HOROVOD_RANK >&2'"
    )

    finished = run_line(folder, line)

    assert 0 == finished.code, finished.text
    files = [(tmp_path / "out" / f"rank.{rank}" / name) for rank in range(2) for name in ("stdout", "stderr")]
    assert ["out 0\n", "err 0\n", "out 1\n", "err 1\n"] == [file.read_text(encoding="utf-8") for file in files]
    assert ["[0] out 0", "[1] out 1"] == sorted(line.split(" ", 1)[1] for line in finished.stdout.splitlines())
    assert ["[0] err 0", "[1] err 1"] == sorted(line.split(" ", 1)[1] for line in finished.stderr.splitlines())


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_timeline_shows_the_engines_cycles_where_it_is_asked_to(
    folder: Path, tmp_path: Path, is_marked: bool
) -> None:
    """The option reaches the engine, and an option that says no is no."""
    option = "--timeline-mark-cycles" if is_marked else "--no-timeline-mark-cycles"
    command = " ".join(map(shlex.quote, program("adds_up")))

    finished = run_line(folder, f"horovodrun -np 2 --timeline-filename {tmp_path}/t.json {option} {command}")

    assert 0 == finished.code, finished.text
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert is_marked == any(event.get("name") == "cycle" for event in events)


def test_verbose_says_who_runs_where(folder: Path) -> None:
    """The output names each rank's host, the call of another host, and the variables sent there."""
    line = "horovodrun -np 3 --verbose --network-interfaces lo -H localhost:2,far1 --env COLOUR=red true"

    finished = run_line(folder, line, {"HOROVOD_START_TIMEOUT": "300"})

    assert 0 == finished.code, finished.text
    assert "ranks 0 to 1 on localhost, this machine" in finished.stderr
    assert "rank 2 on far1, another host" in finished.stderr
    assert "far1 is called by: ssh -T" in finished.stderr
    assert "variables that go to other hosts: AUTOTUNE_CACHE, AUTOTUNE_LOCK, COLOUR, HOROVOD_" in finished.stderr


def test_the_distribution_has_the_command_and_nothing_else(tmp_path: Path) -> None:
    """Built and installed from its folder, without the network; the command starts ranks."""
    pip = [sys.executable, "-m", "pip"]
    offline = ["-qq", "--no-deps", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "--no-build-isolation", "-w", str(tmp_path), str(COMPAT)], check=True)
    (wheel,) = tmp_path.glob("ringtune_horovodrun-*-py3-none-any.whl")
    installed = tmp_path / "installed"
    subprocess.run([*pip, "install", *offline, "--target", str(installed), str(wheel)], check=True)

    finished = run_job([str(installed / "bin" / "horovodrun"), "-np", "2", "sh", "-c", "echo $HOROVOD_RANK"])

    assert ["bin/horovodrun"] == [
        str(path.relative_to(installed))
        for path in installed.rglob("*")
        if path.is_file() and ".dist-info" not in str(path)
    ]
    assert (0, ["0", "1"]) == (finished.code, sorted(finished.stdout.split())), finished.text
