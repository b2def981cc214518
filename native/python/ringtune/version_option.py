# SPDX-License-Identifier: Apache-2.0
"""The `--version` option of the `ringtune` command."""

from typing import Annotated, TypeAlias

import typer

from ringtune import __version__


def print_version(is_wanted: bool) -> None:
    """Print the installed version and end, where it is wanted.

    Raises:
        Exit: After the version was printed.
    """
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit


Version: TypeAlias = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and end.")
]
