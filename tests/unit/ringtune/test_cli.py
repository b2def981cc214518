# SPDX-License-Identifier: Apache-2.0
"""Options of the `ringtune` command itself."""

import pytest
from typer.testing import CliRunner

import ringtune
from ringtune import cli
from ringtune.cli import app


@pytest.mark.parametrize("arguments", [["--version"], ["run", "--version"], ["run", "-v"]])
def test_the_version_is_printed(arguments: list[str]) -> None:
    """`ringtune --version` prints the package's version and ends well; so does Horovod's way to ask."""
    result = CliRunner().invoke(app, arguments)

    assert (0, ringtune.__version__) == (result.exit_code, result.stdout.strip())


def test_ctrl_c_before_a_command_begins_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of SIGINT, from the first thing that the command line does."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "occupy_standard_streams", interrupted)
    monkeypatch.setattr("sys.argv", ["ringtune", "--version"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert (130, "", "") == (ended.value.code, *capsys.readouterr())


def test_an_error_is_printable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Names out of files, logs and replies are in messages; none is an escape sequence there, or a line."""
    monkeypatch.setattr(
        "sys.argv", ["ringtune", "recommend", "--world-size", "2", "--model", "m", "--format", "\x1b[2J\na"]
    )

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert 2 == ended.value.code
    assert "ringtune: error: --format \\x1b[2J\n  a is not known" in capsys.readouterr().err
