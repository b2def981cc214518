# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: from the options to a launch."""

import errno
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ringtune.errors import ConfigError
from ringtune.launch.options.choices import Choices, read_choices, sent_variables
from ringtune.launch.options.command import GroupedCommand, as_command
from ringtune.launch.options.controllers import starts_by_mpi

if TYPE_CHECKING:
    from ringtune.launch import JobLoop, LaunchPlan, OutputTaker, Reach
    from ringtune.settings.settings import Settings

START_TIMEOUT_S = 30.0
START_TIMEOUT_NAME = "HOROVOD_START_TIMEOUT"


def add_commands(app: typer.Typer) -> None:
    """Mount the command."""
    app.command(cls=GroupedCommand, context_settings={"allow_interspersed_args": False})(as_command(run, "run"))


def run(command: list[str], given: Mapping[str, Any]) -> int:
    """Start a job of several ranks, on this host or on those that -H names.

    It takes the options of horovodrun, too. With --min-np, --max-np or --host-discovery-script the job is elastic: it
    goes on when workers are lost or added.

    Example: ringtune run -np 4 -H a:2,b:2 --autotune python train.py
    """
    from ringtune.launch.options.elasticity import is_elastic  # noqa: PLC0415
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415  (each command imports what it needs)

    choices = read_choices(given)
    if choices.value("version") or choices.value("check_build"):
        typer.echo(_report(choices))
        return 0
    inherited = environment()
    return (_run_elastic if is_elastic(choices) else _run_fixed)(command, choices, inherited)


def _run_fixed(command: list[str], choices: Choices, inherited: Mapping[str, str]) -> int:
    """Run a job whose ranks are all started at once."""
    from ringtune.launch import Launcher, describe, make_plan  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.launch.options.places import named_hosts, named_interfaces  # noqa: PLC0415

    interfaces = named_interfaces(choices)
    plan = make_plan(
        command,
        _number_of_ranks(choices),
        _sent(choices, interfaces, inherited),
        _with_slips_told(choices.environment(inherited)),
        hosts=named_hosts(choices, inherited),
        prefix_output=choices.value("prefix_output"),
        stamp_output=choices.value("prefix_output_with_timestamp", False),
    )
    if starts_by_mpi(choices):
        _become_mpirun(plan, choices, interfaces)
    reach = _reach(choices, interfaces, inherited) if plan.names_hosts else None
    settings = _check(plan.environments[0], choices)
    if not plan.names_hosts:
        check_here(settings)
    _say_if_verbose(choices, lambda: describe(plan, reach))
    return _launched(lambda taps: Launcher(plan, reach, taps), choices, plan.world_size)


def _run_elastic(command: list[str], choices: Choices, inherited: Mapping[str, str]) -> int:
    """Run a job whose workers come and go."""
    from ringtune.launch import make_elastic_plan  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.launch.elastic import ElasticLaunch, ElasticLauncher, describe_elastic  # noqa: PLC0415
    from ringtune.launch.options.elasticity import elastic_hosts, elastic_limits  # noqa: PLC0415
    from ringtune.launch.options.places import named_interfaces  # noqa: PLC0415

    interfaces = named_interfaces(choices)
    limits = elastic_limits(choices, inherited, _start_limit_s(choices, inherited))
    plan = make_elastic_plan(
        command,
        _sent(choices, interfaces, inherited),
        _with_slips_told(choices.environment(inherited)),
        prefix_output=choices.value("prefix_output"),
        stamp_output=choices.value("prefix_output_with_timestamp", False),
    )
    job = ElasticLaunch(plan, limits, elastic_hosts(choices, limits))
    reach = _reach(choices, interfaces, inherited) if job.may_have_agents else None
    _check(plan.environment, choices)
    _say_if_verbose(choices, lambda: describe_elastic(job))
    return _launched(lambda taps: ElasticLauncher(job, reach, taps), choices, None)


def _sent(choices: Choices, interfaces: Sequence[str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that go to the ranks of all hosts."""
    sent = sent_variables(choices.value("env", ()), inherited)
    for name in ("NCCL_SOCKET_IFNAME", "RINGTUNE_INTERFACES") if interfaces else ():
        sent.setdefault(name, inherited.get(name, ",".join(interfaces)))
    return sent


def check_here(settings: "Settings") -> None:
    """Raise `ConfigError` for files and an address of a local job that its ranks could not use, one text for all.

    Args:
        settings: The job's settings.
    """
    from ringtune.client.address import service_url  # noqa: PLC0415  (each command imports what it needs)

    if settings.autotune and settings.service_url is not None:
        service_url(settings.service_url)
    files = {
        "AUTOTUNE_LOG": settings.autotune_log if settings.autotune else None,
        "RINGTUNE_TIMELINE": settings.timeline,
    }
    for name, file in files.items():
        if file is not None and (problem := _problem_of(Path(file).absolute(), is_log=name == "AUTOTUNE_LOG")):
            raise ConfigError(f"{name}={file!r} cannot be written: {problem}")


def _problem_of(file: Path, *, is_log: bool) -> str:
    """Return why a file cannot be written, and a remedy; empty if it can, once the job has made its folder."""
    from ringtune.tuner.logs.file import advice_on  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.tuner.logs.log import open_log  # noqa: PLC0415

    try:
        if is_log and file.exists() and not file.is_fifo():
            open_log(file).close()  # something else may be in it
        folder = next(folder for folder in file.parents if folder.exists())
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is no folder")
        if not os.access(folder, os.W_OK | os.X_OK) and not os.access(file, os.W_OK):
            raise PermissionError(errno.EACCES, f"{folder} takes no file of yours")
    except OSError as error:
        return f"{error.strerror}; {advice_on(error)}"
    return ""


def _check(environ: Mapping[str, str], choices: Choices) -> "Settings":
    """Return the settings, and warn of options without effect.

    Raises:
        ConfigError: If a variable of the ranks is not allowed.
    """
    from ringtune._engine import allreduce_algorithms  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.settings.settings import Settings  # noqa: PLC0415
    from ringtune.system.console import write_line  # noqa: PLC0415

    for warning in choices.warnings():
        write_line(f"ringtune run: warning: {warning}.")
    return Settings.from_environment(environ, allreduce_algorithms())  # once here, not a traceback per rank


def _with_slips_told(environ: Mapping[str, str]) -> dict[str, str]:
    """Warn of variables whose names are misspelt, and return the environment in which rank 0 does not repeat that."""
    from ringtune.settings.settings import slips_by_name  # noqa: PLC0415
    from ringtune.settings.variables import LOG_LEVELS, SLIPS_TOLD_NAME  # noqa: PLC0415
    from ringtune.system.console import write_line  # noqa: PLC0415  (each command imports what it needs)

    slips = slips_by_name(environ)
    if not slips or environ.get("RINGTUNE_LOG_LEVEL", "").lower() == LOG_LEVELS[-1]:
        return dict(environ)
    for slip in slips.values():
        write_line(f"ringtune run: warning: {slip}")
    return {**environ, SLIPS_TOLD_NAME: ",".join(slips)}


def _say_if_verbose(choices: Choices, describe: Callable[[], Iterable[str]]) -> None:
    from ringtune.system.console import write_line  # noqa: PLC0415  (each command imports what it needs)

    if choices.value("verbose"):
        for line in describe():
            write_line(f"ringtune run: {line}")


def _launched(make: "Callable[[Sequence[OutputTaker]], JobLoop]", choices: Choices, ranks: int | None) -> int:
    """Run the job to its end and return the exit code; the ranks' output goes to a folder if one is named."""
    from ringtune.launch import OutputFolder  # noqa: PLC0415  (each command imports what it needs)

    folder = choices.value("output_filename")
    if folder is None:
        return make(()).run()
    files = OutputFolder(Path(folder), ranks)
    code = make([files]).run()
    return code or int(files.loss is not None)


def _become_mpirun(plan: "LaunchPlan", choices: Choices, interfaces: Sequence[str]) -> NoReturn:
    """Replace this process by mpirun: signals, terminals and exit codes are then up to MPI alone."""
    from ringtune.launch.mpirun import MpiOptions, find_mpirun, mpi_command  # noqa: PLC0415
    from ringtune.system.console import write_line  # noqa: PLC0415  (each command imports what it needs)

    identity = choices.value("ssh_identity_file")
    options = MpiOptions(
        mpi_args=choices.value("mpi_args", ""),
        binding_args=choices.value("binding_args"),
        ssh_port=choices.value("ssh_port"),
        ssh_identity=None if identity is None else Path(identity),
        interfaces=interfaces,
        output_folder=choices.value("output_filename"),
    )
    command, environ = mpi_command(find_mpirun(plan.environment.get("PATH")), plan, options)
    _check(environ, choices)
    if choices.value("verbose"):
        write_line(f"ringtune run: {shlex.join(command)}")
    if options.output_folder is not None:
        _make_folder(Path(options.output_folder))
    os.execve(command[0], command, environ)  # noqa: S606  (a shell would read the arguments anew)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--output-filename {folder} cannot be made ({error.strerror}); name a folder that can be written"
        ) from error


def _report(choices: Choices) -> str:
    """Return the text that --version or --check-build prints."""
    from ringtune.commands.build_report import build_report  # noqa: PLC0415
    from ringtune.version import __version__  # noqa: PLC0415  (each command imports what it needs)

    return __version__ if choices.value("version") else build_report()


def _number_of_ranks(choices: Choices) -> int:
    ranks = choices.value("num_proc")
    if ranks is None:
        raise ConfigError(
            "the number of ranks is missing; give it with -np, such as: ringtune run -np 2 python train.py"
        )
    return int(ranks)


def _start_limit_s(choices: Choices, environ: Mapping[str, str]) -> float:
    """Return the time limit of the hosts' answers."""
    from ringtune.launch.options.tables import OPTIONS  # noqa: PLC0415  (each command imports what it needs)

    limit_s: float | None = choices.value("start_timeout")
    if limit_s is None:
        text = environ.get(START_TIMEOUT_NAME, "").strip() or str(START_TIMEOUT_S)
        limit_s = OPTIONS["start_timeout"].choose(text, START_TIMEOUT_NAME).value
    return limit_s


def _reach(choices: Choices, interfaces: Sequence[str], environ: Mapping[str, str]) -> "Reach":
    """Return how other hosts are reached."""
    from ringtune.launch import Reach, make_remote_shell  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.meeting.rendezvous.interfaces import interface_address  # noqa: PLC0415

    limit_s = _start_limit_s(choices, environ)
    identity = choices.value("ssh_identity_file")
    shell = make_remote_shell(
        choices.value("rsh"), choices.value("ssh_port"), None if identity is None else Path(identity), limit_s
    )
    return Reach(shell, limit_s, interface_address(interfaces) if interfaces else None)
