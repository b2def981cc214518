# SPDX-License-Identifier: Apache-2.0
"""`ringtune tune` and `ringtune nccl-plugin`: settings of engines that are not ours."""

from pathlib import Path
from typing import Annotated

import typer

from ringtune.errors import ConfigError


def add_commands(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command(context_settings={"allow_interspersed_args": False})(tune)
    app.command("nccl-plugin")(nccl_plugin)


def tune(
    *,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Program of each launch, and arguments.")],
    target: Annotated[str, typer.Option(metavar="ENGINE", help="Engine to tune: openmpi, mpich, nccl or horovod.")],
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the winner's files; default: ringtune-ENGINE.")
    ] = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help="Tuning log; an unfinished run is resumed.")] = None,
    score: Annotated[
        str, typer.Option(help="output: printed numbers are the score; wall: the duration is.")
    ] = "output",
    score_regex: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Has one group; default: 'ringtune: step_ms=12.3'.")
    ] = None,
    higher_is_better: Annotated[
        bool, typer.Option("--higher-is-better/--lower-is-better", help="Direction of the score that the regex finds.")
    ] = False,
    max_samples: Annotated[int | None, typer.Option(help="Most configs; default: 20, without another limit.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Budget, in steps of all launches.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Budget, in seconds.")] = None,
    pairs: Annotated[int, typer.Option(help="Maximum baseline/candidate pairs in the adoption test.")] = 6,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    trial_timeout_s: Annotated[float, typer.Option(metavar="SECONDS", help="Limit of one launch.")] = 600.0,
    designer: Annotated[str | None, typer.Option(help="Search method: gp (default), skopt or random.")] = None,
    only: Annotated[str | None, typer.Option(metavar="KNOB,...", help="Knobs to vary; default: all.")] = None,
    result_tolerance: Annotated[
        float, typer.Option(metavar="FRACTION", help="Relative difference up to which printed results are equal.")
    ] = 0.001,
) -> int:
    """Tune an engine that is not ours: launch a command once per trial, and write what won for the engine to read.

    Example: ringtune tune --target openmpi --log tune.jsonl -- mpirun -n 8 python train.py
    """
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)

    from .bootstrap import environment  # noqa: PLC0415
    from .launch_tuning import TuneRequest, run_tune  # noqa: PLC0415
    from .tuner import DEFAULT_DESIGNER  # noqa: PLC0415

    if score not in {"output", "wall"}:
        raise ConfigError(f"--score {score} is not known; known are output and wall")
    request = TuneRequest(
        target=target,
        command=tuple(command),
        output=output or Path(f"ringtune-{target}"),
        log=log,
        score_regex=score_regex,
        score_wall=score == "wall",
        higher_is_better=higher_is_better,
        max_samples=max_samples,
        max_steps=max_steps,
        max_seconds=max_seconds,
        pairs=pairs,
        seed=seed,
        trial_timeout_s=trial_timeout_s,
        designer=designer or DEFAULT_DESIGNER,
        only=tuple(only.split(",")) if only else (),
        result_tolerance=result_tolerance,
    )
    return run_tune(request, environment(), Console())


def nccl_plugin() -> int:
    """Print the path of the tuner plugin for NCCL, for NCCL_TUNER_PLUGIN.

    Example: export NCCL_TUNER_PLUGIN=$(ringtune nccl-plugin)
    """
    from .launch_tuning import plugin_path  # noqa: PLC0415  (each command imports what it needs)

    typer.echo(str(plugin_path()))
    return 0
