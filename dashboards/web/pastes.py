# SPDX-License-Identifier: Apache-2.0
"""A config as people paste it: variables for a shell, JSON for a program, and the command that asks again.

What was reported ends up in a shell: values are quoted, and of the engine's configs only the engine's knobs are taken.
"""

import json
import shlex
from dataclasses import dataclass

from ringtune.tuner import Config
from ringtune.tuner.parameters import ENGINE_PARAMETERS
from ringtune.tuner.review.settings_text import knob_variable, setting_value
from ringtune.tuner.review.summary import RINGTUNE


@dataclass(frozen=True)
class Paste:
    """Something to paste: what it is for, what is to be known, and the text."""

    title: str
    note: str
    text: str


@dataclass(frozen=True)
class Place:
    """Where a config is to be used, as `ringtune recommend` asks for it."""

    model: str | None
    hardware: str | None
    world_size: int
    local_size: int
    target: str


def pastes(config: Config, place: Place, comment: str) -> tuple[Paste, ...]:
    """Return what can be pasted for a config; `comment` says what it rests on."""
    found = []
    if place.target == RINGTUNE and config:
        found.append(Paste("Environment", "Fixes every knob: the tuner leaves them alone.", _exports(config, comment)))
    if config:
        text = json.dumps(config.to_json(), indent=2, sort_keys=True)
        found.append(Paste("JSON", "The config as the API has it.", text))
    note = (
        "Asks again, so that a newer answer is found."
        if place.target == RINGTUNE
        else (f"Prints the settings in the words of {place.target}.")
    )
    return (*found, Paste("Command", note, _command(place)))


def _exports(config: Config, comment: str) -> str:
    known = {parameter.name for parameter in ENGINE_PARAMETERS}
    lines = [
        f"export {knob_variable(name)}={shlex.quote(setting_value(name, value))}"
        for name, value in config.items()
        if name in known
    ]
    return "\n".join([f"# {_one_line(comment)}", *lines])


def _command(place: Place) -> str:
    options = {
        "--model": place.model,
        "--hardware": place.hardware,
        "--world-size": str(place.world_size),
        "--local-size": str(place.local_size),
        "--target": place.target,
        "--format": "env",
    }
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(["ringtune", "recommend", *words])


def _one_line(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
