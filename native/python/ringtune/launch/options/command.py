# SPDX-License-Identifier: Apache-2.0
"""The tables as a command of typer: its parameters, and a help that is divided into groups."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .option import LaunchOption, OptionGroup
from .tables import GROUPS

LaunchCommand = Callable[[list[str], Mapping[str, Any]], int]


class GroupedCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each under its heading."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = getattr(parameter, "rich_help_panel", None) or "Command"
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def as_command(launch: LaunchCommand, name: str) -> Callable[..., int]:
    """Return a function that typer can mount: the options are its parameters.

    Args:
        launch: Takes the command line of the ranks, and the options' values by field.
        name: Name of the command; its help is `launch`'s docstring.
    """

    def command(command: list[str] | None = None, **given: Any) -> int:
        return launch(command or [], given)

    parameters = [_parameter(option, group) for group in GROUPS for option in group.options]
    argument = Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="Program and arguments; the same for every rank."),
    ]
    first = inspect.Parameter("command", inspect.Parameter.KEYWORD_ONLY, annotation=argument, default=None)
    command.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
    command.__name__ = name
    command.__doc__ = launch.__doc__
    command.__annotations__ = {}
    return command


def _parameter(option: LaunchOption, group: OptionGroup) -> inspect.Parameter:
    names = [*option.names]
    kind: Any = str | None
    if option.reader is None:
        kind = bool | None
        names = ["/".join((option.names[0], option.opposites[0])), *option.names[1:]] if option.opposites else names
    elif option.is_repeatable:
        kind = list[str] | None
    elif option.words > 1:
        kind = tuple[str, str] | None
    info = typer.Option(
        *names, metavar=option.metavar or None, help=option.help, rich_help_panel=group.title, show_default=False
    )
    return inspect.Parameter(
        option.field, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=None
    )
