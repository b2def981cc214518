# SPDX-License-Identifier: Apache-2.0
"""Options of the command to start, its hosts, and the ranks' output."""

from ringtune.launch.hosts import MAX_SLOTS
from ringtune.meeting.bootstrap.integers import MAX_WORLD_SIZE
from ringtune.settings.parsing import AnyTextReader, IntegerReader, NameListReader, SecondsReader, TextReader
from ringtune.settings.variables import SUBSTITUTED_TORCH_BACKENDS, TORCH_BACKEND_NAME

from .option import AlwaysSo, HasNoEffect, Launches, LaunchOption, OptionGroup, SetsVariable

MAX_INTERFACES = 16
MAX_START_TIMEOUT_S = 86_400.0

JOB = OptionGroup(
    "Job",
    (
        LaunchOption(
            ("-np", "--num-proc", "--num-ranks"),
            "Number of ranks.",
            Launches(),
            IntegerReader(1, MAX_WORLD_SIZE),
            "N",
        ),
        LaunchOption(
            ("--env",),
            "Send a variable to the ranks of all hosts; without a value, the launcher's. Repeatable.",
            Launches(),
            AnyTextReader(),
            "NAME[=VALUE]",
            is_repeatable=True,
        ),
        LaunchOption(
            ("--torch-backend",),
            "Run torch.distributed's Gloo groups on this engine, as RINGTUNE_TORCH_BACKEND=gloo; sets RANK, LOCAL_RANK "
            "and so on, as torchrun does.",
            SetsVariable(TORCH_BACKEND_NAME, lambda _is_on: SUBSTITUTED_TORCH_BACKENDS[0]),
        ),
        LaunchOption(
            ("--config-file",),
            "YAML file in Horovod's form with values of these options; the command line wins.",
            Launches(),
            TextReader(),
            "FILE",
        ),
        LaunchOption(
            ("-cb", "--check-build"),
            "Print which frameworks, controllers and operations this installation has, and end.",
            Launches(),
        ),
        LaunchOption(("-v", "--version"), "Print the version and end.", Launches()),
        LaunchOption(("--verbose",), "Say who runs where and how other hosts are reached.", Launches()),
    ),
)

HOSTS = OptionGroup(
    "Hosts",
    (
        LaunchOption(
            ("-H", "--hosts"),
            "Hosts and ranks on each, 1 by default.",
            Launches(),
            TextReader(),
            "HOST[:SLOTS],...",
        ),
        LaunchOption(
            ("--hostfile", "-hostfile"),
            "File of hosts, one a line: 'HOST slots=N', 'HOST:N' or 'HOST'; # begins a comment.",
            Launches(),
            TextReader(),
            "FILE",
        ),
        LaunchOption(
            ("--hosts-from",),
            "Function that returns the hosts, as {'host': slots} or ['host:slots'].",
            Launches(),
            TextReader(),
            "MODULE:FUNCTION",
        ),
        LaunchOption(
            ("--slots-per-host", "--slots"),
            "Ranks on each host that does not say how many; default: 1.",
            Launches(),
            IntegerReader(1, MAX_SLOTS),
            "N",
        ),
        LaunchOption(
            ("--network-interfaces",),
            "Interfaces of this machine by which other hosts reach it; default: that of the route to the first.",
            Launches(),
            NameListReader(MAX_INTERFACES),
            "NAME,...",
        ),
        LaunchOption(
            ("--network-interface",),
            "The same, one or several at a time. Repeatable.",
            Launches(),
            NameListReader(MAX_INTERFACES),
            "NAME",
            is_repeatable=True,
        ),
        LaunchOption(
            ("--start-timeout",),
            "Seconds in which other hosts have to be reached and to answer; default: HOROVOD_START_TIMEOUT, or 30.",
            Launches(),
            SecondsReader(0.001, MAX_START_TIMEOUT_S),
            "SECONDS",
        ),
        LaunchOption(
            ("--disable-cache",), "Check the hosts at this start; they are checked at every start.", AlwaysSo()
        ),
    ),
)

SSH = OptionGroup(
    "Remote shell",
    (
        LaunchOption(("-p", "--ssh-port"), "Port of the SSH servers.", Launches(), IntegerReader(1, 65_535), "PORT"),
        LaunchOption(
            ("--ssh-identity-file", "-i", "--ssh-identity"), "Private key for ssh.", Launches(), TextReader(), "FILE"
        ),
        LaunchOption(
            ("--rsh",), "Instead of ssh; called as COMMAND HOST REMOTE_COMMAND.", Launches(), TextReader(), "COMMAND"
        ),
    ),
)

OUTPUT = OptionGroup(
    "Output of the ranks",
    (
        LaunchOption(
            ("--prefix-output",),
            "Lines begin with their rank; the default with other hosts.",
            Launches(),
            opposites=("--no-prefix-output",),
        ),
        LaunchOption(
            ("--prefix-output-with-timestamp", "-prefix-timestamp"),
            "Lines begin with the time and their rank.",
            Launches(),
        ),
        LaunchOption(
            ("--output-filename",),
            "Folder for what each rank writes, besides showing it: FOLDER/rank.N/stdout and stderr.",
            Launches(),
            TextReader(),
            "FOLDER",
        ),
        LaunchOption(
            ("--log-with-timestamp", "--no-log-hide-timestamp"),
            "No effect: see --prefix-output-with-timestamp.",
            HasNoEffect("ringtune's own lines have no time; --prefix-output-with-timestamp puts it before every line"),
            key="logging.with_timestamp",
        ),
        LaunchOption(
            ("--log-without-timestamp", "--log-hide-timestamp"),
            "Write ringtune's own lines without the time; they never have it.",
            AlwaysSo(),
            key="logging.hide_timestamp",
        ),
    ),
)
