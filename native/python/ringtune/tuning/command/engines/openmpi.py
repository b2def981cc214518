# SPDX-License-Identifier: Apache-2.0
"""Open MPI: allreduce by message size through a rules file of `coll/tuned`, limits of shared memory, yielding waiters.

Names as `ompi_info --all` of 5.0 lists them; `btl_sm_*` is `btl_vader_*` before 5.0, which that version takes as a
synonym. One algorithm for all sizes is wrong nearly everywhere, so there are two, and the size where they change over.
Trials go by environment variables and a rules file, which every host of the job must be able to read at its path.

On several hosts `coll/han`, which reduces inside each host first, has a higher priority than `coll/tuned`, so that the
rules would not be asked for the whole communicator. Where a config has rules, `han` is therefore left out. The knob
`hierarchy` leaves it out without rules.
"""

from collections.abc import Mapping
from pathlib import Path

from ringtune.tuner import Config, Value

from .engine import (
    DEFAULT,
    Engine,
    WinnerFile,
    choice_knob,
    commented,
    settings_file,
    size_knob,
)

PREFIX = "OMPI_MCA_"
USE_RULES = "coll_tuned_use_dynamic_rules"
RULES_NAME = "coll_tuned_dynamic_rules_filename"
ALLREDUCE_ID = 2
"""Number of allreduce among the collectives of a rules file."""
ALGORITHMS = {
    DEFAULT: 0,
    "basic_linear": 1,
    "nonoverlapping": 2,
    "recursive_doubling": 3,
    "ring": 4,
    "segmented_ring": 5,
    "rabenseifner": 6,
}
"""Numbers of the algorithms; 0 leaves the choice to Open MPI."""
CHANGE_OVER_BYTES = 64 * 1024
"""Size from which the large algorithm is used, unless `large_from_bytes` is set."""
HAN_PRIORITY = "coll_han_priority"
NO_PRIORITY = "0"  # below that of `coll/tuned`, 30; `han` has 35 (`ompi_info --param coll all --level 9`)
SEGMENTED = "segmented_ring"
"""Algorithm that cuts a message into segments; the others ignore their size."""
TRIAL_RULES = "trial-rules.conf"
WINNER_RULES = "allreduce-rules.conf"
WINNER_PARAMETERS = "mca-params.conf"

_WORDS: Mapping[Value, str] = {name: str(number) for name, number in ALGORITHMS.items() if number}


def rules_text(config: Config, comment: str) -> str:
    """Return a rules file for `coll/tuned`: allreduce, communicators of any size, one rule per range of sizes.

    A rule is the message size in bytes from which it holds, the algorithm, the fan-out (0: not given) and the segment.
    """
    small, large = (ALGORITHMS[str(config[name])] for name in ("small_algorithm", "large_algorithm"))
    chosen = config["large_from_bytes"]
    from_bytes = CHANGE_OVER_BYTES if chosen == DEFAULT else chosen
    segment = 0 if config["segment_bytes"] == DEFAULT else config["segment_bytes"]
    lines = [
        *commented(comment),
        "1  # collectives",
        f"{ALLREDUCE_ID}  # allreduce",
        "1  # sizes of communicators",
        "1  # from one rank on",
        "2  # message sizes",
        f"0 {small} 0 0",
        f"{from_bytes} {large} 0 {segment}",
    ]
    return "\n".join(lines) + "\n"


def has_rules(config: Config) -> bool:
    """Tell whether a config chooses an algorithm."""
    return config["small_algorithm"] != DEFAULT or config["large_algorithm"] != DEFAULT


def _environment(config: Config, folder: Path) -> Mapping[str, str]:
    return {f"{PREFIX}{name}": value for name, value in _rule_parameters(config, folder / TRIAL_RULES).items()}


def _rule_parameters(config: Config, rules: Path) -> dict[str, str]:
    return {USE_RULES: "true", RULES_NAME: str(rules), HAN_PRIORITY: NO_PRIORITY} if has_rules(config) else {}


def _effective(config: Config) -> Config:
    """Return a config with the default in place of values that have no effect beside the others."""
    idle = {"hierarchy"} if has_rules(config) else {"large_from_bytes", "segment_bytes"}
    if config["large_algorithm"] != SEGMENTED:
        idle.add("segment_bytes")
    if config["small_algorithm"] == config["large_algorithm"] != SEGMENTED:
        idle.add("large_from_bytes")
    return Config({name: DEFAULT if name in idle else value for name, value in config.items()})


def _trial_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    del folder
    return (WinnerFile(TRIAL_RULES, rules_text(config, comment).encode()),) if has_rules(config) else ()


def _winner_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    plain = {name.removeprefix(PREFIX): value for name, value in OPENMPI.plain_variables(config).items()}
    instead = f"in that file's place: export {PREFIX}mca_base_param_files={{path}}"
    usage = f"add its lines to ~/.openmpi/mca-params.conf, or, {instead}"
    values = {**plain, **_rule_parameters(config, folder / WINNER_RULES)}
    files = (settings_file(WINNER_PARAMETERS, values, comment, sign=" = ", usage=usage),)
    if not has_rules(config):
        return files
    return (*files, WinnerFile(WINNER_RULES, rules_text(config, comment).encode()))


_RULE_VARIABLES = tuple(
    f"{PREFIX}{name}" for name in (USE_RULES, RULES_NAME, "coll_tuned_allreduce_algorithm", HAN_PRIORITY)
)
OPENMPI = Engine(
    name="openmpi",
    knobs=(
        choice_knob("small_algorithm", _WORDS),
        choice_knob("large_algorithm", _WORDS),
        size_knob("large_from_bytes", 1024, 4 * 1024**2, 1024, ()),
        size_knob("segment_bytes", 4096, 4 * 1024**2, 1024, ()),
        size_knob("eager_limit_bytes", 1024, 32 * 1024, 256, (f"{PREFIX}btl_sm_eager_limit",)),
        choice_knob("hierarchy", {"off": NO_PRIORITY}, (f"{PREFIX}{HAN_PRIORITY}",)),
        choice_knob("yield_when_idle", {"on": "true", "off": "false"}, (f"{PREFIX}mpi_yield_when_idle",)),
    ),
    winner_files=_winner_files,
    environment_of=_environment,
    trial_files=_trial_files,
    effective=_effective,
    needs={
        "large_from_bytes": (("small_algorithm", "large_algorithm"),),
        "segment_bytes": (("large_algorithm",),),
    },
    owned=dict.fromkeys(("small_algorithm", "large_algorithm", "large_from_bytes", "segment_bytes"), _RULE_VARIABLES),
)
