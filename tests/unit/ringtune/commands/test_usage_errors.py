# SPDX-License-Identifier: Apache-2.0
"""A mistake on the command line is answered with the nearest option and the help of the command that was meant."""

import sys

import pytest

from ringtune.cli import main


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (
            "run -np 2 --cycle-tme-ms 3 true",
            "there is no option --cycle-tme-ms; did you mean --cycle-time-ms? See ringtune run --help.",
        ),
        (
            "run -np 2 --no-autotun true",
            "there is no option --no-autotun; did you mean --no-autotune? See ringtune run --help.",
        ),
        ("run -np 2 --xyzzy true", "there is no option --xyzzy. See ringtune run --help."),
        ("run -np 2 -x A=1 true", "there is no option -x. See ringtune run --help."),
        ("token create --nmae x", "there is no option --nmae; did you mean --name? See ringtune token create --help."),
        ("serve --prot 1", "there is no option --prot; did you mean --port? See ringtune serve --help."),
        ("--versoin", "there is no option --versoin; did you mean --version? See ringtune --help."),
        ("rum -np 2 true", "No such command 'rum'. Did you mean 'run'? See ringtune --help."),
        ("run -np", "Option '-np' requires an argument. See ringtune run --help."),
    ],
)
def test_the_right_help_is_named(
    arguments: str, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 2 and one paragraph."""
    monkeypatch.setattr(sys, "argv", ["ringtune", *arguments.split()])

    with pytest.raises(SystemExit) as ended:
        main()

    assert 2 == ended.value.code
    assert f"ringtune: error: {answer}\n" == capsys.readouterr().err
