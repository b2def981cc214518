# SPDX-License-Identifier: Apache-2.0
"""`ringtune push` and `ringtune recommend` in this process."""

import typer

from ringtune.commands.service_commands import add_commands


def ringtune(*arguments: str) -> int:
    """Run a command and return its exit code; errors are raised, as the command line meets them."""
    app = typer.Typer()
    add_commands(app)
    code = app(args=list(arguments), standalone_mode=False)
    assert isinstance(code, int)
    return code
