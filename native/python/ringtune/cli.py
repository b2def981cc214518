# SPDX-License-Identifier: Apache-2.0
"""The `ringtune` command: the composition root, which alone may import all packages; each command imports its own.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 ended by Ctrl-C; `run` returns the first failing
rank's. Errors are one paragraph on stderr.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ringtune.commands.compare_commands import add_commands as add_compare_commands
from ringtune.commands.rendezvous_command import add_commands as add_rendezvous_command
from ringtune.commands.run_command import add_commands as add_run_command
from ringtune.commands.service_commands import add_commands as add_client_commands
from ringtune.commands.tune_commands import add_commands as add_tune_commands
from ringtune.commands.usage_errors import is_usage_error, usage_advice
from ringtune.errors import ConfigError, RingtuneError
from ringtune.system.printable import printable, printable_lines
from ringtune.system.standard_streams import occupy_standard_streams
from ringtune.version import __version__

from .service.commands import add_commands as add_server_commands

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
BENCH_SIZES = "1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB"

app = typer.Typer(
    name="ringtune",
    help="An allreduce engine that tunes itself while the job trains.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    """Print the installed version and end, where it is wanted.

    Raises:
        Exit: After the version was printed.
    """
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit


Version: TypeAlias = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
]


@app.callback()
def _all_commands(*, print_version: Version = False) -> None:
    """An allreduce engine that tunes itself while the job trains."""  # noqa: D401 - `ringtune --help` prints it


add_run_command(app)
add_rendezvous_command(app)


@app.command()
def review(
    *,
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Tuning logs: of AUTOTUNE_LOG, of Horovod or of Bagua.")
    ],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with figures, which needs no network.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> int:
    """Show whether tuning helped, its cost, the trials, and the parameters that mattered; logs side by side.

    Example: ringtune review tuning.jsonl --html review.html
    """
    from .tuner.review import (  # noqa: PLC0415  (each command imports what it needs)
        output_console,
        render_comparison,
        render_review,
        review_log,
        to_json,
    )

    try:
        reviews = [review_log(path) for path in logs]
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be read ({error.strerror}); give the path of a tuning log"
        ) from error
    if html is not None:
        from .dashboards.report.page import write_page  # noqa: PLC0415  (Plotly and Jinja2 take a while)

        write_page(html, reviews)
        typer.echo(f"Report: {html}", err=True)
    if as_json:
        typer.echo(json.dumps([to_json(item) for item in reviews], indent=2))
    elif len(reviews) == 1:
        render_review(reviews[0], output_console())
    else:
        render_comparison(reviews, output_console())
    return 0 if all(item.runs for item in reviews) else EXIT_FAILED


SurfaceFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--record-surface", metavar="FILE", help="Step times of a workload under a grid of configs."),
]
SurfaceMinutes: TypeAlias = Annotated[
    float | None, typer.Option(help="Minutes after which --record-surface stops; start again to go on.")
]
BenchPeers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="PEER,...",
        help="mpich, openmpi, impi, gloo, horovod, system-mpich, system-openmpi, or none; default: all found.",
    ),
]
BenchHosts: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Divide the ranks among N hosts made here (root).")
]
BenchFormat: TypeAlias = Annotated[
    str, typer.Option("--format", metavar="table|nccl-tests|osu", help="Columns of the output, of sizes alone.")
]
BenchDelayMs: TypeAlias = Annotated[
    float, typer.Option("--delay-ms", help="Delay from one of the hosts to another, ms; 0: none is added.")
]
BenchAlgorithms: TypeAlias = Annotated[
    str,
    typer.Option(metavar="NAME,...", help="The engine's ways between hosts: auto, ring, recursive_doubling, ..."),
]
SurfaceComputeMs: TypeAlias = Annotated[
    float | None, typer.Option(help="Processor time of a step besides its gradients, for --record-surface.")
]


@app.command()
def bench(
    *,
    against: BenchPeers = None,
    ranks: Annotated[int, typer.Option("-np", "--num-ranks", help="Number of ranks.")] = 2,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="SIZE,...", help=f"Sizes of single allreduces; without --workload: {BENCH_SIZES}."),
    ] = None,
    workloads: Annotated[
        list[Path] | None, typer.Option("--workload", metavar="FILE", help="Gradients of a step (JSON); repeatable.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Also measure the engine under this RINGTUNE_*; repeatable."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Launches of each contestant; intervals take 6.")] = 6,
    hosts: BenchHosts = None,
    link: Annotated[str | None, typer.Option(metavar="RATE", help="Rate of each host's link, such as 1gbit.")] = None,
    delay_ms: BenchDelayMs = 0.0,
    algorithms: BenchAlgorithms = "ring,hierarchical",
    trace: Annotated[bool, typer.Option("--trace", help="Also show where the engine's time goes.")] = False,
    environments: Annotated[Path, typer.Option(metavar="DIR", help="Folder of .venv-mpich and the like.")] = Path(),
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all rows there.")] = None,
    text_format: BenchFormat = "table",
    surface: SurfaceFile = None,
    minutes: SurfaceMinutes = None,
    compute_ms: SurfaceComputeMs = None,
) -> int:
    """Compare the engine with this machine's limit and with other engines, in one interleaved run."""
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)

    from ringtune.measuring.bench.comparison import Request, run_bench  # noqa: PLC0415
    from ringtune.measuring.bench.contestants import parse_settings  # noqa: PLC0415
    from ringtune.measuring.bench.network_comparison import Topology, run_network_bench  # noqa: PLC0415
    from ringtune.measuring.bench.workloads import read_workloads  # noqa: PLC0415

    if (hosts is None) != (link is None):
        raise ConfigError("--hosts and --link go together; give both, such as --hosts 2 --link 1gbit, or neither")
    topology = None if hosts is None or link is None else Topology(hosts, link, delay_ms, tuple(algorithms.split(",")))
    if surface is not None:
        arguments = {"ranks": ranks, "repeats": rounds, "minutes": minutes, "compute_ms": compute_ms}
        return _record_surface(surface, workloads or [], topology, arguments)
    peers = tuple(against.split(",")) if against else ()
    request = Request(
        peers,
        ranks,
        _bench_sizes(sizes, has_workloads=bool(workloads)),
        rounds,
        environments,
        json_file,
        read_workloads(workloads or ()),
        parse_settings(assignments or ()),
        trace,
        text_format,
    )
    if topology is None:
        run_bench(request, os.environ, Console(), Console(stderr=True))
    else:
        run_network_bench(request, topology, os.environ, Console(), Console(stderr=True))
    return 0


def _record_surface(surface: Path, workloads: Sequence[Path], topology: Any, arguments: Mapping[str, Any]) -> int:
    """Record the step times of one workload under every config of a grid."""
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)

    from ringtune.measuring.bench.surface import SurfaceRequest, record_surface  # noqa: PLC0415
    from ringtune.measuring.bench.workloads import read_workloads  # noqa: PLC0415

    if len(workloads) != 1:
        raise ConfigError(f"--record-surface records one workload, not {len(workloads)}; give one --workload FILE")
    (workload,) = read_workloads(workloads)
    request = SurfaceRequest(file=surface, workload=workload, **arguments)
    record_surface(request, topology, os.environ, Console(stderr=True))
    return 0


def _bench_sizes(sizes: str | None, *, has_workloads: bool) -> tuple[int, ...]:
    """Return the bytes of single allreduces; the default's where no workload is to be measured."""
    from ringtune.settings.parsing import parse_size  # noqa: PLC0415  (each command imports what it needs)

    if sizes is None:
        sizes = "" if has_workloads else BENCH_SIZES
    try:
        return tuple(parse_size(size) for size in sizes.split(",") if sizes)
    except ValueError as error:
        raise ConfigError(f"--sizes {sizes!r}: {error} is no size; give sizes such as 1KiB,1MiB") from error


@app.command()
def simulate(
    *,
    model: Annotated[str, typer.Option(metavar="NAME|FILE", help="resnet50, bert_base, ..., or gradients (JSON).")],
    hosts: Annotated[int, typer.Option(help="Number of hosts.")] = 1,
    ranks_per_host: Annotated[int, typer.Option(help="Ranks on each host.")] = 8,
    link: Annotated[str, typer.Option(metavar="RATE", help="Rate of each host's link, such as 25gbit.")] = "25gbit",
    compute_ms: Annotated[
        float | None, typer.Option(help="A step without communication; default: estimated for 32 samples.")
    ] = None,
    compute_threads: Annotated[
        float, typer.Option(help="Cores that a rank's computing keeps busy; 0: an accelerator computes.")
    ] = 0.0,
    cores_per_host: Annotated[int | None, typer.Option(help="Cores of each host; default: two per rank.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> int:
    """Predict a job that does not run yet: its steps, the best config, and the surface around it.

    Example: ringtune simulate --model bert_base --hosts 64 --ranks-per-host 8 --link 25gbit
    """
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)

    from .tuner.simulator import (  # noqa: PLC0415
        Cluster,
        described_job,
        forecast,
        parse_link,
        render_forecast,
        to_json,
    )

    job = described_job(model, compute_ms, compute_threads=compute_threads)
    cores = 2 * ranks_per_host if cores_per_host is None else cores_per_host
    answer = forecast(job, Cluster(hosts, ranks_per_host, cores, parse_link(link)))
    if as_json:
        typer.echo(json.dumps(to_json(answer), indent=2))
    else:
        render_forecast(answer, Console())
    return 0


@app.command()
def doctor(
    *,
    fingerprint: Annotated[bool, typer.Option("--fingerprint", help="Print the hardware key of this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> int:
    """Show the findings of this machine: hardware, service, caches, and its problems with their remedies.

    Example: ringtune doctor --json
    """
    from ringtune.commands.doctor import examine, fingerprint_report  # noqa: PLC0415  (each command imports what it needs)

    if fingerprint:
        facts = fingerprint_report(os.environ)
        width = max(len(name) for name, _ in facts)
        lines = [f"{name:<{width}}  {value}" for name, value in facts]
        typer.echo(json.dumps(dict(facts), indent=2) if as_json else "\n".join(map(printable, lines)))
        return 0
    report = examine(os.environ)
    typer.echo(json.dumps(report.to_json(), indent=2) if as_json else "\n".join(map(printable, report.lines())))
    return 0


def _web_pages() -> Any:
    """Return the web pages of `ringtune serve`."""
    from .dashboards.web import WebPages  # noqa: PLC0415  (each command imports what it needs)

    return WebPages()


add_compare_commands(app)
add_tune_commands(app)
add_client_commands(app)
add_server_commands(app, _web_pages)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(_run_app(sys.argv[1:]))


def horovodrun() -> None:
    """Run `ringtune run` under the name of Horovod's launcher, and exit."""
    sys.exit(_run_app(["run", *sys.argv[1:]]))


def _run_app(arguments: list[str]) -> int:
    """Return the exit code; print an error as one paragraph."""
    try:
        _take_over_ctrl_c()
        occupy_standard_streams()  # before anything is opened that a command would print into
        code: Any = app(args=arguments, prog_name="ringtune", standalone_mode=False)
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    except RingtuneError as error:
        return _fail(str(error), EXIT_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:
        if not is_usage_error(error):
            raise
        return _fail(usage_advice(error, typer.main.get_command(app), arguments), EXIT_USAGE)
    return code if isinstance(code, int) else 0


def _take_over_ctrl_c() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from here on; while this module was imported, it ended the process."""
    if getattr(signal.getsignal(signal.SIGINT), "__module__", "") in {"ringtune.__main__", "__main__"}:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _fail(text: str, code: int) -> int:
    typer.echo(printable_lines(f"ringtune: error: {text}"), err=True)
    return code


if __name__ == "__main__":
    main()
