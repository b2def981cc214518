# SPDX-License-Identifier: Apache-2.0
"""Options of `horovodrun` whose subject ringtune does not have, or has in another way: each names its replacement."""

from ringtune.settings.parsing import IntegerReader, TextReader

from .engine_options import MANY
from .option import AlwaysSo, Effect, HasNoEffect, IsRefused, Launches, LaunchOption, OptionGroup, SetsVariable


def _counted(names: tuple[str, ...], help_text: str, effect: Effect, key: str = "") -> LaunchOption:
    return LaunchOption(names, help_text, effect, IntegerReader(0, MANY), "N", key=key)


CONTROLLERS = OptionGroup(
    "Controllers",
    (
        LaunchOption(
            ("--gloo",),
            "Start the ranks without MPI; that is the default.",
            AlwaysSo(),
            key="controller",
        ),
        LaunchOption(
            ("--mpi",),
            "Start the ranks by the mpirun that stands first in PATH, of Open MPI or MPICH. Signals, output and exit "
            "code are then mpirun's own.",
            Launches(),
            key="controller",
        ),
        LaunchOption(
            ("--jsrun",),
            "Refused: jsrun starts the ranks itself.",
            IsRefused(
                "the ranks are started without jsrun; start them by it with: jsrun -n N COMMAND, and with mpi4py"
            ),
        ),
    ),
)

LIBRARIES = OptionGroup(
    "Libraries",
    (
        LaunchOption(
            ("--mpi-args",),
            "More arguments for mpirun, in quotes; implies --mpi.",
            Launches(),
            TextReader(),
            "ARGS",
        ),
        LaunchOption(
            ("--mpi-threads-disable",),
            "No effect: MPI starts the ranks at most, and no thread of the engine calls it then.",
            HasNoEffect("MPI is asked for threads only by the MPI transport, which needs them"),
            opposites=("--no-mpi-threads-disable",),
            key="library_options.mpi_threads_disable",
        ),
        LaunchOption(
            ("--tcp",),
            "Use TCP alone between all ranks, as RINGTUNE_TRANSPORT=tcp.",
            SetsVariable("RINGTUNE_TRANSPORT", lambda _is_on: "tcp"),
        ),
        LaunchOption(
            ("--binding-args",),
            "Arguments for binding that mpirun gets with --mpi, in quotes; default: bind to nothing.",
            Launches(),
            TextReader(),
            "ARGS",
        ),
        _counted(
            ("--num-nccl-streams",),
            "No effect: the engine uses one stream of each GPU.",
            HasNoEffect("the engine uses one stream of each GPU; NCCL_MAX_CTAS bounds what NCCL takes of it"),
            "library_options.num_nccl_streams",
        ),
        _counted(
            ("--thread-affinity",),
            "No effect: the engine's thread is not bound.",
            HasNoEffect("the engine's thread is not bound; bind a whole rank with: taskset -c CORES COMMAND"),
            "library_options.thread_affinity",
        ),
        _counted(
            ("--gloo-timeout-seconds",),
            "No effect: see --stall-check-shutdown-time-seconds.",
            HasNoEffect(
                "there is no Gloo here; --stall-check-shutdown-time-seconds limits how long an operation takes"
            ),
            "library_options.gloo_timeout_seconds",
        ),
    ),
)
