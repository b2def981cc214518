# SPDX-License-Identifier: Apache-2.0
"""A rank without torch, for programs that test the engine's behaviour and should start fast."""

import os
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError
from ringtune.session.session import SESSION
from ringtune.world.world import World

FLOAT64 = 7
INT64 = 3
AVERAGE = 0
SUM = 1


def say(text: str) -> None:
    """Write a line to standard output with one call, so that lines of several ranks do not mix."""
    os.write(1, f"{text}\n".encode())


def join() -> World:
    """Join the world and return it."""
    SESSION.init()
    return SESSION.require()


def join_together(folder: Path) -> World:
    """Join once all ranks have come so far: a short RINGTUNE_TIMEOUT_S leaves a busy machine no time to start them."""
    (folder / f"here.{os.environ['RINGTUNE_RANK']}").touch()
    while len(list(folder.glob("here.*"))) < int(os.environ["RINGTUNE_WORLD_SIZE"]):
        time.sleep(0.01)
    return join()


def allreduce(world: World, name: str, values: list[float], op: int = SUM) -> list[float]:
    """Return the values combined over all ranks."""
    memory = array("d", values)
    wait(world, submit(world, name, memory, op))
    return list(memory)


def submit(world: World, name: str, memory: array, op: int = SUM, *, is_gradient: bool = False) -> int:  # type: ignore[type-arg]
    """Start to combine memory in place; it must live until the handle is done."""
    address, count = memory.buffer_info()
    return world.engine.allreduce_async(name, address, address, (count,), FLOAT64, op, is_gradient)


def wait(world: World, handle: int) -> None:
    """Wait for a handle."""
    world.engine.wait(handle)


def expect_error(kind: type[Exception], words: str, call: Callable[[], object]) -> None:
    """Make a call that must raise an error of a kind with some words."""
    try:
        call()
    except kind as error:
        text = str(error)
    else:
        raise AssertionError(f"no error: {words}")
    assert words in text, text


def expect_refusal(words: str, call: Callable[[], object]) -> None:
    """Make a call that must raise a ConfigError with some words."""
    expect_error(ConfigError, words, call)


def run_cases(members: Mapping[str, Any], chosen: Sequence[str] = (), *arguments: object) -> None:
    """Run a program's `case_` functions, and print `NAME: begins` and `NAME: right` around each.

    Args:
        members: The program's globals.
        chosen: Names of cases; all in their order by default.
        arguments: Arguments of every case.
    """
    cases = {name.removeprefix("case_"): case for name, case in members.items() if name.startswith("case_")}
    for name in chosen or cases:
        say(f"{name}: begins")
        cases[name](*arguments)
        say(f"{name}: right")
