# SPDX-License-Identifier: Apache-2.0
"""Checks of the launcher before ranks start: one text instead of a traceback of each rank."""

from pathlib import Path

import pytest

from ringtune.commands.run_command import check_here
from ringtune.errors import ConfigError
from ringtune.settings.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTOTUNE_LOG", f"{__file__}/t.jsonl"),
        ("RINGTUNE_TIMELINE", f"{__file__}/t.json"),
        ("AUTOTUNE_SERVICE_URL", "127.0.0.1:1"),
    ],
)
def test_files_and_an_address_that_ranks_could_not_use_are_refused(name: str, value: str) -> None:
    """The text names the variable and its value."""
    settings = Settings.from_environment({"AUTOTUNE": "1", name: value})

    with pytest.raises(ConfigError, match=name) as refused:
        check_here(settings)

    assert value in str(refused.value)


@pytest.mark.parametrize("name", ["train.py", "table.csv"])
def test_a_log_never_takes_the_place_of_another_file(tmp_path: Path, name: str) -> None:
    """The name is refused before a rank starts, with advice that fits; the file is not written to."""
    (tmp_path / name).write_text("import torch\n", encoding="utf-8")
    settings = Settings.from_environment({"AUTOTUNE": "1", "AUTOTUNE_LOG": str(tmp_path / name)})

    with pytest.raises(ConfigError, match="something else than a tuning log in it.*; give the log another name"):
        check_here(settings)

    assert "import torch\n" == (tmp_path / name).read_text(encoding="utf-8")


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    """The advice is another name."""
    with pytest.raises(ConfigError, match="Is a directory; give the log another name"):
        check_here(Settings.from_environment({"AUTOTUNE": "1", "AUTOTUNE_LOG": str(tmp_path)}))


def test_a_folder_that_the_job_may_make_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """A script often makes the folder of its results first."""
    check_here(Settings.from_environment({"AUTOTUNE": "1", "AUTOTUNE_LOG": str(tmp_path / "results" / "t.jsonl")}))


def test_a_log_of_a_tuner_that_is_off_is_not_checked() -> None:
    """The log is never opened."""
    check_here(Settings.from_environment({"AUTOTUNE_LOG": "/nowhere/t.jsonl", "AUTOTUNE_SERVICE_URL": "x"}))
