# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: the reference of the command line, made from the commands."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ringtune.cli import app

PAGE = "reference/command_line.md"
INTRODUCTION = """# The command line

Generated from the commands; `ringtune COMMAND --help` says the same. Exit codes: 0 done, 1 failed, 2 wrong usage or
configuration; `run` returns that of the first failing rank, 128 + the signal if it was killed. Errors are one paragraph
on stderr.
"""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the page."""
    lines = [INTRODUCTION]
    for words, command in _commands(typer.main.get_command(app), "ringtune"):
        lines += _section(words, command)
    files.append(File.generated(config, PAGE, content="\n".join(lines)))
    return files


def _commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with the words that call it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield words, command
        return
    for name in sorted(children):
        yield from _commands(children[name], f"{words} {name}")


def _section(words: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if _is_argument(parameter)]
    options = [p for p in command.params if not _is_argument(p) and "--help" not in p.opts]
    usage = [words, *(["[OPTIONS]"] if options else []), *map(_metavar, arguments)]
    yield f"\n## {words}\n"
    yield inspect.cleandoc(command.help or "")
    yield f"\n```text\n{' '.join(usage)}\n```\n"
    if command.params:
        yield "| | meaning | default |"
        yield "|---|---|---|"
        yield from map(_row, (*arguments, *options))


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _row(parameter: Any) -> str:
    is_argument = _is_argument(parameter)
    value = "" if is_argument or getattr(parameter, "is_flag", False) else f" {_metavar(parameter)}"
    spellings = [_metavar(parameter)] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    names = ", ".join(f"`{spelling}{value}`".replace("|", "\\|") for spelling in spellings)
    return f"| {names} | {(parameter.help or '').replace('|', chr(92) + '|')} | {_default(parameter)} |"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    is_unset = parameter.default is None or parameter.default is False
    return "" if is_unset else f"`{parameter.default}`"
