# SPDX-License-Identifier: Apache-2.0
"""`ringtune run --mpi` writes the command line that each MPI's launcher takes."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.hosts import parse_hosts
from ringtune.launch.mpirun import MpiFamily, MpiOptions, Mpirun, find_mpirun, mpi_command
from ringtune.launch.options.choices import read_choices
from ringtune.launch.options.controllers import starts_by_mpi
from ringtune.launch.plan import make_plan
from ringtune.system.usable_cores import usable_cores

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
NO_OPTIONS = MpiOptions()
NEW, OLD, HYDRA = MpiFamily.OPEN_MPI_5, MpiFamily.OPEN_MPI_4, MpiFamily.HYDRA


def written(
    family: MpiFamily,
    hosts: str | None = None,
    options: MpiOptions = NO_OPTIONS,
    *,
    environ: Mapping[str, str] = ENVIRON,
    **plan: Any,
) -> tuple[list[str], dict[str, str]]:
    """Return the options between the number of ranks and the command, and the environment."""
    named = None if hosts is None else parse_hosts(hosts)
    job = make_plan(["sh", "train.sh"], 4, {"TOKEN": "secret"}, environ, hosts=named, **plan)
    command, environment = mpi_command(Mpirun("/mpi/bin/mpirun", family), job, options)
    assert ["/mpi/bin/mpirun", "-np", "4"] == command[:3]
    assert ["sh", "train.sh"] == command[-2:]
    return command[3:-2], environment


def without_exports(words: list[str]) -> list[str]:
    """Return Open MPI's options without `-x NAME`."""
    return [word for n, word in enumerate(words) if word != "-x" and words[n - 1 : n] != ["-x"]]


UNBOUND = ["--bind-to", "none", "--map-by", "slot", *ROOT]
SSH = MpiOptions(ssh_port=2222, ssh_identity=Path("my key"))


@pytest.mark.parametrize(
    ("family", "hosts", "options", "expected"),
    [
        (NEW, None, MpiOptions(), ["--host", "localhost:4", *UNBOUND]),
        (OLD, "a:3,ada@b:1", MpiOptions(), ["--host", "a:3,ada@b:1", *UNBOUND, "--tag-output"]),
        (NEW, "a:3,b:2", MpiOptions(), ["--host", "a:3,b:1", *UNBOUND, "--output", "tag"]),
        (NEW, None, SSH, ["--host", "localhost:4", *UNBOUND, "--prtemca", "plm_ssh_args", "-p 2222 -i 'my key'"]),
        (OLD, None, SSH, ["--host", "localhost:4", *UNBOUND, "--mca", "plm_rsh_args", "-p 2222 -i 'my key'"]),
        (
            NEW,
            None,
            MpiOptions(interfaces=("eth0", "ib0"), output_folder="out"),
            ["--host", "localhost:4", *UNBOUND, "--mca", "btl_tcp_if_include", "eth0,ib0", "--output", "dir=out"],
        ),
        (OLD, None, MpiOptions(output_folder="out"), ["--host", "localhost:4", *UNBOUND, "--output-filename", "out"]),
        (
            NEW,
            None,
            MpiOptions(binding_args="--bind-to core", mpi_args="--mca pml 'ob 1'"),
            ["--host", "localhost:4", "--bind-to", "core", *ROOT, "--mca", "pml", "ob 1"],
        ),
        (HYDRA, None, MpiOptions(mpi_args="-genv A 1"), ["-bind-to", "none", "-genv", "A", "1"]),
        (HYDRA, "a:3,b:1", MpiOptions(), ["-hosts", "a:3,b:1", "-bind-to", "none", "-prepend-rank"]),
        (HYDRA, None, MpiOptions(interfaces=("eth0", "ib0")), ["-bind-to", "none", "-iface", "eth0"]),
        (HYDRA, None, MpiOptions(binding_args="-bind-to core"), ["-bind-to", "core"]),
        (
            HYDRA,
            None,
            MpiOptions(output_folder="out"),
            ["-bind-to", "none", "-outfile-pattern", "out/rank.%r.stdout", "-errfile-pattern", "out/rank.%r.stderr"],
        ),
    ],
)
def test_options_are_translated(family: MpiFamily, hosts: str | None, options: MpiOptions, expected: list[str]) -> None:
    """Hosts, binding, ssh, interfaces and files have other names in each family; --mpi-args come last."""
    words, _ = written(family, hosts, options)

    extra = shlex.split(options.mpi_args)
    body, tail = words[: len(words) - len(extra)], words[len(words) - len(extra) :]
    assert expected == without_exports(body) + tail
    assert tail == extra


def test_variables_go_by_their_names_alone() -> None:
    """Values stand on no command line; MPI tells the place, and no secret of this machine leaves it."""
    kept_back = {
        "RINGTUNE_RANK": "1",
        "RINGTUNE_JOB_KEY": "k",
        "RINGTUNE_SERVICE_ADMIN_TOKEN": "t",
        "HOROVOD_RANK": "1",
    }
    words, environment = written(NEW, environ={**ENVIRON, **kept_back, "AUTOTUNE": "1", "HOROVOD_CYCLE_TIME": "2"})

    named = {words[n + 1] for n, word in enumerate(words) if word == "-x"}
    assert {"PATH", "AUTOTUNE", "HOROVOD_CYCLE_TIME", "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "TOKEN"} == named
    assert "secret" not in " ".join(words)
    assert "secret" == environment["TOKEN"]
    assert not {*kept_back, "RINGTUNE_WORLD_SIZE", "RINGTUNE_RENDEZVOUS"} & set(environment)


def test_hydra_finds_ssh_options_in_a_variable() -> None:
    """Its command line takes the program's name alone."""
    _, environment = written(HYDRA, "a:4", SSH)

    assert "-p 2222 -i 'my key'" == environment["HYDRA_LAUNCHER_EXTRA_ARGS"]


def test_ranks_of_this_machine_share_its_cores() -> None:
    """The number of cores of other hosts is unknown."""
    unset = {name: value for name, value in ENVIRON.items() if name != "OMP_NUM_THREADS"}
    _, here = written(NEW, environ=unset)
    _, elsewhere = written(NEW, "localhost:2,elsewhere.invalid:2", environ=unset)

    assert str(max(1, usable_cores() // 4)) == here["OMP_NUM_THREADS"]
    assert "OMP_NUM_THREADS" not in elsewhere


@pytest.mark.parametrize(
    ("family", "options", "plan", "text"),
    [
        (HYDRA, MpiOptions(), {"stamp_output": True}, "MPICH's mpirun writes no time"),
        (NEW, MpiOptions(mpi_args="-x 'A"), {}, '--mpi-args "-x \'A" cannot be split'),
        (HYDRA, MpiOptions(binding_args="'"), {}, '--binding-args "\'" cannot be split'),
    ],
)
def test_what_has_no_counterpart_is_an_error(
    family: MpiFamily, options: MpiOptions, plan: dict[str, Any], text: str
) -> None:
    """One sentence, before anything starts."""
    with pytest.raises(ConfigError) as error:
        written(family, None, options, **plan)

    assert text in str(error.value)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("mpirun (Open MPI) 5.0.11", NEW),
        ("mpirun (Open MPI) 4.1.6", OLD),
        ("mpirun (IBM Spectrum MPI) 10.4.0", OLD),
        ("HYDRA build details:\n    Version:  5.0.2", HYDRA),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.13", HYDRA),
    ],
)
def test_the_family_is_read_from_the_version(tmp_path: Path, shown: str, expected: MpiFamily) -> None:
    """The first mpirun of PATH counts."""
    assert Mpirun(str(program(tmp_path, shown)), expected) == find_mpirun(str(tmp_path))


def test_no_mpirun_or_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    """The message names the program in PATH."""
    with pytest.raises(ConfigError, match="there is no mpirun in PATH"):
        find_mpirun(str(tmp_path))
    program(tmp_path, "my own launcher 3")

    with pytest.raises(ConfigError, match="says 'my own launcher 3'"):
        find_mpirun(str(tmp_path))


def program(folder: Path, shown: str) -> Path:
    """Make an mpirun that prints a version."""
    file = folder / "mpirun"
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{shown}\nEND\n", encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, False), ({"gloo": True}, False), ({"mpi": True}, True), ({"mpi_args": "-x A"}, True)],
)
def test_arguments_for_mpirun_ask_for_it(given: dict[str, Any], expected: bool) -> None:
    """Arguments for mpirun are given only by users that want mpirun."""
    assert expected == starts_by_mpi(read_choices(given))


def test_the_command_line_chooses_the_controller_before_the_file(tmp_path: Path) -> None:
    """`controller: gloo` in a file does not contradict --mpi."""
    file = tmp_path / "options.yaml"
    file.write_text("controller: gloo\n", encoding="utf-8")

    assert starts_by_mpi(read_choices({"mpi": True, "config_file": str(file)}))
    assert not starts_by_mpi(read_choices({"config_file": str(file)}))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"gloo": True, "mpi": True}, "--gloo and --mpi name two launchers"),
        ({"gloo": True, "mpi_args": "-x A"}, "--gloo and --mpi-args name two launchers"),
        ({"binding_args": "--bind-to core"}, "--binding-args: without --mpi, ranks are not bound"),
        ({"mpi": True, "rsh": "srun"}, "--rsh: mpirun calls a remote shell in its own way"),
    ],
)
def test_options_of_the_other_launcher_are_errors(given: dict[str, Any], text: str) -> None:
    """Each names the option to use."""
    with pytest.raises(ConfigError) as error:
        starts_by_mpi(read_choices(given))

    assert text in str(error.value)
