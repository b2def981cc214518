# SPDX-License-Identifier: Apache-2.0
"""A recommended config as text to paste: exports for a shell, in the words of the engine that is to be set.

The service's text ends up in a shell: each line is a comment of printable text or one export, and no value is written
that the engine's own search space does not allow.
"""

import shlex
from collections.abc import Collection, Mapping
from typing import Any

from ringtune.client.errors import ServiceReplyError
from ringtune.errors import ConfigError
from ringtune.settings.variables import knob_variable
from ringtune.shared_service.advice.answers import is_default, is_pasted
from ringtune.shared_service.rest_models import Recommendation
from ringtune.system.printable import printable
from ringtune.tuner import Config, SearchSpace, SpaceError, engine_parameters
from ringtune.tuning.command.engines import engine_names, find_engine

ENGINE_TARGET = "ringtune"
DEFAULT_ADVICE = "Nothing is to be set: the default is in force without it."
CACHE_ENTRIES = {True: "1024", False: "0"}
"""Horovod's cache is a number of entries, 1024 by default; ours grows as it needs."""


def checked_config(offer: Recommendation, algorithms: Collection[str]) -> Config:
    """Return the recommended config, if it is legal for its target; one of a target that is not known here as it is.

    Args:
        offer: The recommendation.
        algorithms: Names in the engine's allreduce registry, without `auto`.

    Raises:
        ServiceReplyError: If it is not legal.
    """
    try:
        if offer.target == ENGINE_TARGET:
            return SearchSpace(engine_parameters(algorithms), {}).validate(offer.config)
        if offer.target in engine_names() and offer.config:
            return find_engine(offer.target).legal(offer.config)
    except SpaceError as error:
        raise ServiceReplyError(f"what is recommended is not legal here: {error}; it is not shown") from error
    return Config(offer.config)


def advice_text(offer: Recommendation, *, is_for_horovod: bool = False) -> str:
    """Return the step to take before the recommendation is relied on; empty where none is needed."""
    if is_for_horovod and offer.target != "horovod" and not is_default(offer):
        return f"Measured on {offer.target}, not on Horovod: a prior, test it before you rely on it."
    if is_default(offer):
        return DEFAULT_ADVICE
    return "A prior: AUTOTUNE=1 tests it; without that, test it before you rely on it." if offer.is_prior else ""


def file_text(config: Config, target: str) -> str:
    """Return the knobs that no variable sets, and the command that sets them; empty where variables set all."""
    unsaid = find_engine(target).in_files(config) if config and target in engine_names() else ()
    return f"Without {', '.join(unsaid)}, which take a file: ringtune tune writes it." if unsaid else ""


def pasted_config(offer: Recommendation, config: Config) -> Config:
    """Return the config to write as settings to paste: one that a paired test adopted, else an empty one.

    Args:
        offer: The recommendation.
        config: Its config, checked.
    """
    return config if is_pasted(offer) else Config({})


def engine_variables(config: Config, target: str) -> dict[str, str]:
    """Return the variables that set a config in its own engine.

    Raises:
        ConfigError: If the target is not set by variables.
    """
    if target == ENGINE_TARGET:
        return {knob_variable(name): _word(value) for name, value in config.items()}
    if target in engine_names():
        return find_engine(target).plain_variables(config) if config else {}
    raise ConfigError(f"{target} is not set by variables; use --format table or json")


def horovod_variables(config: Config, target: str) -> dict[str, str]:
    """Return Horovod's variables for a config of ours, as far as it has such knobs, or for one of its own.

    Raises:
        ConfigError: If the config is another engine's.
    """
    if not config:
        return {}
    if target == "horovod":
        return engine_variables(config, target)
    if target != ENGINE_TARGET:
        raise ConfigError(f"a config of {target} cannot be written for Horovod; use --target ringtune or horovod")
    switches = {name: str(int(bool(config[name]))) for name in ("hierarchical_allreduce", "hierarchical_allgather")}
    return {
        "HOROVOD_FUSION_THRESHOLD": _word(config["fusion_bytes"]),
        "HOROVOD_CYCLE_TIME": _word(config["cycle_ms"]),
        "HOROVOD_CACHE_CAPACITY": CACHE_ENTRIES[bool(config["response_cache"])],
        "HOROVOD_HIERARCHICAL_ALLREDUCE": switches["hierarchical_allreduce"],
        "HOROVOD_HIERARCHICAL_ALLGATHER": switches["hierarchical_allgather"],
    }


def shell_text(variables: Mapping[str, str], *comments: str) -> str:
    """Return comments and `export` lines, ready to be pasted, whatever the texts and values contain."""
    lines = [f"# {printable(comment)}" for comment in comments if comment]
    exports = [f"export {name}={shlex.quote(printable(value))}" for name, value in variables.items()]
    return "\n".join([*lines, *exports])


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)
