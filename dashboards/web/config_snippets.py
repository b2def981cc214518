# SPDX-License-Identifier: Apache-2.0
"""A config as people paste it: variables for a shell, JSON for a program, and the command that asks again.

Reported values end up in a shell: values are quoted, of the engine's configs only the engine's knobs are taken, and
those of other engines must be legal there.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from ringtune.tuner import Config, SpaceError
from ringtune.tuner.review.settings_text import knob_variable, setting_value
from ringtune.tuner.review.summary import RINGTUNE
from ringtune.tuner.space.parameters import ENGINE_PARAMETERS
from ringtune.tuning.command.engines import engine_names, find_engine


@dataclass(frozen=True)
class Snippet:
    """Text to paste, with its purpose and a note."""

    title: str
    note: str
    text: str


@dataclass(frozen=True)
class ConfigUse:
    """The use of a config, as `ringtune recommend` asks for it."""

    model: str | None
    hardware: str | None
    world_size: int
    local_size: int
    target: str


def snippets_of(config: Config, use: ConfigUse, comment: str) -> tuple[Snippet, ...]:
    """Return the texts to paste for a config; `comment` says the evidence behind it."""
    found = []
    variables = _variables(config, use.target)
    if variables:
        found.append(Snippet("Environment", _note(config, use.target), _exports(variables, comment)))
    if config:
        text = json.dumps(config.to_json(), indent=2, sort_keys=True)
        found.append(Snippet("JSON", "The config as the API has it.", text))
    return (*found, Snippet("Command", "Asks again, so that a newer answer is found.", _command(use)))


def _variables(config: Config, target: str) -> dict[str, str]:
    """Return the variables that set a config in its own engine; none for one that is not set by variables."""
    if target == RINGTUNE:
        known = {parameter.name for parameter in ENGINE_PARAMETERS}
        return {knob_variable(name): setting_value(name, value) for name, value in config.items() if name in known}
    if target not in engine_names() or not config:
        return {}
    engine = find_engine(target)
    try:
        return engine.plain_variables(engine.legal(config))
    except SpaceError:  # somebody reported a value that the engine does not know
        return {}


def _note(config: Config, target: str) -> str:
    if target == RINGTUNE:
        return "Fixes every knob: the tuner leaves them alone."
    engine = find_engine(target)
    unsaid = engine.in_files(engine.legal(config))
    beside = f" Without {', '.join(unsaid)}, which take a file: ringtune tune writes it." if unsaid else ""
    return f"What {target} reads when it starts.{beside}"


def _exports(variables: Mapping[str, str], comment: str) -> str:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    one_line = " ".join("".join(letter if letter.isprintable() else " " for letter in comment).split())
    return "\n".join([f"# {one_line}", *lines])


def _command(use: ConfigUse) -> str:
    options = {
        "--model": use.model,
        "--hardware": use.hardware,
        "--world-size": str(use.world_size),
        "--local-size": str(use.local_size),
        "--target": use.target,
        "--format": "env" if use.target in (RINGTUNE, *engine_names()) else "table",
    }
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(["ringtune", "recommend", *words])
