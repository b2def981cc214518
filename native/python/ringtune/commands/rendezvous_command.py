# SPDX-License-Identifier: Apache-2.0
"""`ringtune rendezvous`: gives ranks to the processes of a job as they arrive."""

from typing import Annotated, TypeAlias

import typer

from ringtune.errors import ConfigError

Workers: TypeAlias = Annotated[int | None, typer.Option("-np", "--num-proc", metavar="N", help="Number of workers.")]
MinWorkers: TypeAlias = Annotated[
    int | None, typer.Option("--min-np", metavar="N", help="Smallest number of workers that may train.")
]
MaxWorkers: TypeAlias = Annotated[
    int | None, typer.Option("--max-np", metavar="N", help="Largest number; more workers wait until one is lost.")
]
Listen: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address to listen on; default: that of the default route, a free port."),
]
TimeLimit: TypeAlias = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Limit of the wait for enough workers.")
]
Grace: TypeAlias = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="A worker that does not ask for the next meeting by then is left behind."),
]
Quiet: TypeAlias = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="Wait for further workers before a first meeting of fewer than --max-np."),
]


def add_commands(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(rendezvous)


def rendezvous(
    *,
    workers: Workers = None,
    min_workers: MinWorkers = None,
    max_workers: MaxWorkers = None,
    listen: Listen = None,
    timeout: TimeLimit = 600.0,
    grace: Grace = 60.0,
    quiet: Quiet = 5.0,
) -> int:
    """Give ranks to the processes of a job as they arrive, wherever they were started.

    The processes need RINGTUNE_RENDEZVOUS, which is the printed address, and RINGTUNE_JOB_KEY, which this command
    reads as well. The command ends when the job has ended.

    Example: ringtune rendezvous -np 4 --listen 10.0.0.1:29400
    """
    from ringtune.launch.join_service import JoinedJob, listening_address, serve_job  # noqa: PLC0415
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.meeting.bootstrap.explicit import JOB_KEY_NAME, read_job_key  # noqa: PLC0415
    from ringtune.meeting.bootstrap.tls_variables import read_tls  # noqa: PLC0415
    from ringtune.meeting.rendezvous.server import Patience  # noqa: PLC0415
    from ringtune.system.console import write_line  # noqa: PLC0415
    from ringtune.system.printable import printable  # noqa: PLC0415

    fewest, most = _numbers(workers, min_workers, max_workers)
    environ = environment()
    if not environ.get(JOB_KEY_NAME):
        raise ConfigError(
            f"{JOB_KEY_NAME} is not set; run `export {JOB_KEY_NAME}=$(openssl rand -hex 32)` first, and give the same "
            "key to all workers"
        )
    if min(timeout, grace) <= 0 or quiet < 0:
        raise ConfigError("--timeout and --grace must be above 0, and --quiet must not be below 0")
    job = JoinedJob(fewest, most, workers is None, quiet, Patience(timeout, grace), read_tls(environ))
    return serve_job(
        job,
        read_job_key(environ[JOB_KEY_NAME]),
        listening_address(listen),
        lambda text: typer.echo(printable(text)),
        lambda text: write_line(f"ringtune rendezvous: {text}."),
    )


def _numbers(workers: int | None, fewest: int | None, most: int | None) -> tuple[int, int]:
    """Return the smallest and the largest number of workers that the options ask for."""
    from ringtune.meeting.bootstrap.integers import MAX_WORLD_SIZE  # noqa: PLC0415  (each command imports what it needs)

    if workers is not None:
        if fewest is not None or most is not None:
            raise ConfigError("-np names a fixed number of workers; give it, or --min-np and --max-np")
        fewest = most = workers
    if fewest is None:
        raise ConfigError("the number of workers is missing; give it with -np, or limits with --min-np and --max-np")
    low, high = fewest, MAX_WORLD_SIZE if most is None else most
    if not 1 <= low <= high <= MAX_WORLD_SIZE:
        raise ConfigError(
            f"{low} to {high} workers are not possible; allowed: 1 to {MAX_WORLD_SIZE}, and --max-np at least --min-np"
        )
    return low, high
