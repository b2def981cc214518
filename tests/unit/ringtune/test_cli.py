# SPDX-License-Identifier: Apache-2.0
"""Options of the `ringtune` command itself."""

from importlib.metadata import version

from typer.testing import CliRunner

from ringtune.cli import app


def test_the_version_is_printed() -> None:
    """`ringtune --version` prints the installed version and ends well."""
    result = CliRunner().invoke(app, ["--version"])

    assert (0, version("ringtune")) == (result.exit_code, result.stdout.strip())
