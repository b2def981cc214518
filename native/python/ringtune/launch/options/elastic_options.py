# SPDX-License-Identifier: Apache-2.0
"""Options of elastic jobs: how many workers, where hosts come from, how long the job waits, how hosts cool."""

from ringtune.meeting.bootstrap.integers import MAX_WORLD_SIZE
from ringtune.settings.parsing import IntegerReader, SecondsReader, TextReader

from .engine_options import MANY
from .option import Launches, LaunchOption, OptionGroup

LONGEST_S = 365 * 86_400.0

ELASTIC = OptionGroup(
    "Elastic jobs, which go on when workers are lost or added",
    (
        LaunchOption(
            ("--min-np", "--min-num-proc"),
            "Smallest number of workers that trains; below it the others wait. Default: -np. Makes the job elastic.",
            Launches(),
            IntegerReader(1, MAX_WORLD_SIZE),
            "N",
        ),
        LaunchOption(
            ("--max-np", "--max-num-proc"),
            "Largest number of workers; default: as many as there are slots. Makes the job elastic.",
            Launches(),
            IntegerReader(1, MAX_WORLD_SIZE),
            "N",
        ),
        LaunchOption(
            ("--host-discovery-script",),
            "Command that prints the hosts that may be used now, one a line as HOST or HOST:SLOTS; it is run again and "
            "again. Makes the job elastic.",
            Launches(),
            TextReader(),
            "SCRIPT",
        ),
        LaunchOption(
            ("--elastic-timeout",),
            "Seconds for which there may be fewer workers than --min-np; default: HOROVOD_ELASTIC_TIMEOUT, or 600.",
            Launches(),
            SecondsReader(0.001, LONGEST_S),
            "SECONDS",
        ),
        LaunchOption(
            ("--reset-limit",),
            "Number of times that the workers may change; default: no limit. Workers that come later are not taken in.",
            Launches(),
            IntegerReader(0, MANY),
            "N",
        ),
        LaunchOption(
            ("--blacklist-cooldown-range",),
            "Shortest and longest pause in seconds before a host whose worker failed gets a new one; the pause doubles "
            "with each failure. Default: 5 300.",
            Launches(),
            SecondsReader(0.0, LONGEST_S),
            "MIN MAX",
            words=2,
        ),
    ),
)
