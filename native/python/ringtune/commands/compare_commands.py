# SPDX-License-Identifier: Apache-2.0
"""`ringtune compare`: whether the engine beats DDP on the user's own script, or on a file of gradients."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ringtune.launch.hosts import HostSlots
    from ringtune.measuring.compare.comparison import FinishedComparison
    from ringtune.measuring.compare.request import CompareRequest


Hosts = Annotated[
    str | None,
    typer.Option("-H", "--hosts", metavar="HOST[:SLOTS],...", help="Hosts and ranks on each, 1 by default."),
]
Hostfile = Annotated[
    str | None, typer.Option("--hostfile", metavar="FILE", help="File of hosts, as `ringtune run` takes it.")
]
Variables = Annotated[
    list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Variable for the ranks of all hosts. Repeatable.")
]
Identity = Annotated[
    Path | None, typer.Option("-i", "--ssh-identity-file", metavar="FILE", help="Private key for ssh.")
]
RemoteShell = Annotated[
    str | None, typer.Option(metavar="COMMAND", help="Instead of ssh; called as COMMAND HOST REMOTE_COMMAND.")
]


def add_commands(app: typer.Typer) -> None:
    """Mount the command."""
    app.command(context_settings={"allow_interspersed_args": False})(compare)


def compare(
    context: typer.Context,
    *,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCRIPT ARGS...]", help="A training script, or `python -m MODULE`, and its arguments."),
    ] = None,
    ranks: Annotated[int, typer.Option("-np", "--num-ranks", help="Number of ranks.")],
    gradients: Annotated[
        Path | None, typer.Option(metavar="FILE", help="In place of a script: gradients of a step (JSON).")
    ] = None,
    torch_backend: Annotated[
        bool, typer.Option("--torch-backend", help="Compare Gloo with ringtune's backend also where DDP could be.")
    ] = False,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    env: Variables = None,
    ssh_port: Annotated[int | None, typer.Option("-p", metavar="PORT", help="Port of the SSH servers.")] = None,
    ssh_identity: Identity = None,
    rsh: RemoteShell = None,
    pairs: Annotated[int, typer.Option(help="Runs of each arm, in alternating order.")] = 6,
    seconds: Annotated[float, typer.Option(help="About how long the steps of a run take.")] = 5.0,
    steps: Annotated[int | None, typer.Option(help="Steps of each run, in place of --seconds.")] = None,
    warmup_steps: Annotated[int, typer.Option(help="Steps at the start of each run that do not count.")] = 5,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Longest time of a run without a step.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> int:
    """Compare DDP with ringtune's engine: steps per second of your own script under both, with an interval.

    Each run is a fresh job; the runs of the two arms alternate. Exit codes: 0 measured, 1 not comparable, 2 usage.

    Example: ringtune compare -np 2 train.py --epochs 1
    """
    from ringtune.launch.hosts import hosts_text  # noqa: PLC0415
    from ringtune.launch.options.choices import sent_variables  # noqa: PLC0415
    from ringtune.measuring.compare.report import json_report, text_report  # noqa: PLC0415
    from ringtune.measuring.compare.request import CompareRequest, RankProgram  # noqa: PLC0415
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415  (each command imports what it needs)

    reach = {"-p": ssh_port, "-i": ssh_identity, "--rsh": rsh}
    named = _hosts(hosts=hosts, hostfile=hostfile, ssh_port=ssh_port, ssh_identity_file=ssh_identity, rsh=rsh)
    request = CompareRequest(
        ranks=ranks,
        program=RankProgram.parse(command or ()) if command or gradients is None else None,
        gradients=gradients,
        pairs=pairs,
        seconds=seconds,
        steps=steps,
        warmup_steps=warmup_steps,
        silence_s=timeout,
        reach=reach,
        hosts=None if named is None else hosts_text(named),
        sent=sent_variables(env or (), environment()),
        serves_groups=torch_backend,
    )
    comparison = _compared(context, request, named)
    if comparison.verdict.is_steady:  # else `ringtune doctor` would take chance for a finding
        _keep(comparison, environment())
    typer.echo(json.dumps(json_report(comparison), indent=2) if as_json else text_report(comparison))
    return 0


def _compared(
    context: typer.Context, request: "CompareRequest", hosts: "tuple[HostSlots, ...] | None"
) -> "FinishedComparison":
    """Return a comparison that was run to its end.

    Raises:
        ComparisonError: If the arms cannot be compared; it names options that the script got in place of this command.
    """
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)

    from ringtune.measuring.compare.comparison import run_comparison  # noqa: PLC0415
    from ringtune.measuring.compare.launching import ComparisonError  # noqa: PLC0415
    from ringtune.measuring.compare.meeting import meeting_place  # noqa: PLC0415
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415

    request.check()
    place = meeting_place(hosts, request.ranks, request.reach)
    try:
        return run_comparison(request, environment(), place, Console(stderr=True))
    except ComparisonError as error:
        arguments = () if request.program is None else request.program.arguments
        raise ComparisonError(f"{_misplaced_options(context, arguments)}{error}") from error


def _misplaced_options(context: typer.Context, arguments: Sequence[str]) -> str:
    """Return a sentence on options of this command among a script's arguments; empty if there are none."""
    own = {name for parameter in context.command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    behind = [word for word in arguments if word.startswith("-") and word.partition("=")[0] in own - {"-p", "-i"}]
    if not behind:
        return ""
    stands, it = ("stands", "it") if len(behind) == 1 else ("stand", "them")
    return (
        f"{' and '.join(behind)} {stands} behind the script and went to that; put {it} before the script if ringtune "
        "compare was meant. Besides: "
    )


def _hosts(**given: object) -> "tuple[HostSlots, ...] | None":
    """Return the hosts that options of `ringtune run` name, by field; None where all ranks are on this machine."""
    from ringtune.launch.options.choices import read_choices  # noqa: PLC0415
    from ringtune.launch.options.places import named_hosts  # noqa: PLC0415
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415  (each command imports what it needs)

    choices = read_choices({name: value if value is None else str(value) for name, value in given.items()})
    return named_hosts(choices, environment())


def _keep(comparison: "FinishedComparison", environ: Mapping[str, str]) -> None:
    """Keep the comparison for `ringtune doctor`; a cache that cannot be written is a line on stderr."""
    from ringtune.identity.fingerprints import hardware_facts, hardware_fingerprint, machine_facts  # noqa: PLC0415
    from ringtune.measuring.compare.comparison import keep  # noqa: PLC0415
    from ringtune.system.console import write_line  # noqa: PLC0415
    from ringtune.version import __version__  # noqa: PLC0415  (each command imports what it needs)

    hardware = hardware_fingerprint(hardware_facts([machine_facts()], "shm"), environ.get("RINGTUNE_HARDWARE"))
    try:
        keep(comparison, environ, hardware, __version__)
    except OSError as error:
        write_line(f"ringtune compare: the result is not kept for `ringtune doctor` ({error.strerror or error})")
