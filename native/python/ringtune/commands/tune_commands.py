# SPDX-License-Identifier: Apache-2.0
"""`ringtune tune` and `ringtune nccl-plugin`: settings of engines that are not ours."""

from pathlib import Path
from typing import Annotated

import typer

from ringtune.errors import ConfigError

Command = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Program of each launch, and arguments.")]
Target = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="Engine to tune: openmpi, mpich, nccl, horovod, deepspeed or megatron; or command, with --knobs.",
    ),
]
Knobs = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Knobs of the command in YAML: names, ranges, how they pass.")
]
Output = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder for the winner's files; default: ringtune-ENGINE.")
]
Log = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Tuning log. A run in it goes on: unfinished, or with less budget.")
]
Anew = Annotated[bool, typer.Option("--anew", help="Go on from no run of the log.")]
Score = Annotated[str, typer.Option(help="output: printed numbers are the score; wall: the duration is.")]
ScoreRegex = Annotated[
    str | None, typer.Option(metavar="REGEX", help="Has one group; default: 'ringtune: step_ms=12.3'.")
]
HigherIsBetter = Annotated[
    bool, typer.Option("--higher-is-better/--lower-is-better", help="Direction of the score that the regex finds.")
]
MaxSamples = Annotated[int | None, typer.Option(help="Most configs; default: 20, without another limit.")]
MaxSteps = Annotated[int | None, typer.Option(help="Budget, in steps of all launches.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Budget, in seconds.")]
Pairs = Annotated[int, typer.Option(help="Maximum baseline/candidate pairs in the adoption test.")]
Parallel = Annotated[
    int, typer.Option(metavar="N", help="Launches at once in the search; for a command with a part of the machine.")
]
Shared = Annotated[
    bool, typer.Option("--shared", help="Search together with all machines that run this; AUTOTUNE_SERVICE_URL.")
]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]
TrialTimeoutS = Annotated[float, typer.Option(metavar="SECONDS", help="Limit of one launch.")]
Designer = Annotated[
    str | None,
    typer.Option(help="Search method: gp (default), skopt, random, or optuna:tpe, :cmaes, :gp or :random."),
]
Only = Annotated[str | None, typer.Option(metavar="KNOB,...", help="Knobs to vary; default: all.")]
ResultRegex = Annotated[
    str | None, typer.Option(metavar="REGEX", help="Has one group; default: 'ringtune: result=1.25'.")
]
ResultTolerance = Annotated[
    float, typer.Option(metavar="FRACTION", help="Relative difference up to which printed results are equal.")
]


def add_commands(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command(context_settings={"allow_interspersed_args": False})(tune)
    app.command("nccl-plugin")(nccl_plugin)


def tune(
    *,
    command: Command,
    target: Target,
    knobs: Knobs = None,
    output: Output = None,
    log: Log = None,
    anew: Anew = False,
    score: Score = "output",
    score_regex: ScoreRegex = None,
    higher_is_better: HigherIsBetter = False,
    max_samples: MaxSamples = None,
    max_steps: MaxSteps = None,
    max_seconds: MaxSeconds = None,
    pairs: Pairs = 6,
    parallel: Parallel = 1,
    shared: Shared = False,
    seed: Seed = 0,
    trial_timeout_s: TrialTimeoutS = 600.0,
    designer: Designer = None,
    only: Only = None,
    result_regex: ResultRegex = None,
    result_tolerance: ResultTolerance = 0.001,
) -> int:
    """Tune a foreign engine or any command: launch it once per trial, and write the winning config in a form to use.

    Example: ringtune tune --target openmpi --log tune.jsonl -- mpirun -n 8 python train.py
    """
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)

    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415
    from ringtune.tuner import DEFAULT_DESIGNER  # noqa: PLC0415
    from ringtune.tuning.command import TuneRequest, run_tune  # noqa: PLC0415

    if score not in {"output", "wall"}:
        raise ConfigError(f"--score {score} is not known; known are output and wall")
    request = TuneRequest(
        target=target,
        command=tuple(command),
        output=output or Path(f"ringtune-{target}"),
        log=log,
        anew=anew,
        score_regex=score_regex,
        score_wall=score == "wall",
        higher_is_better=higher_is_better,
        max_samples=max_samples,
        max_steps=max_steps,
        max_seconds=max_seconds,
        pairs=pairs,
        parallel=parallel,
        shared=shared,
        seed=seed,
        trial_timeout_s=trial_timeout_s,
        designer=designer or DEFAULT_DESIGNER,
        only=tuple(only.split(",")) if only else (),
        result_tolerance=result_tolerance,
        result_regex=result_regex,
        knobs=knobs,
    )
    return run_tune(request, environment(), Console())


def nccl_plugin() -> int:
    """Print the path of the tuner plugin for NCCL, for NCCL_TUNER_PLUGIN.

    Example: export NCCL_TUNER_PLUGIN=$(ringtune nccl-plugin)
    """
    from ringtune.tuning.command import plugin_path  # noqa: PLC0415  (each command imports what it needs)

    typer.echo(str(plugin_path()))
    return 0
