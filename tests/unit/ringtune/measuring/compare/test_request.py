# SPDX-License-Identifier: Apache-2.0
"""The command line of a comparison: which program, which environment, which numbers."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.measuring.compare.request import CompareRequest, RankProgram, arm_environment, left_out


@pytest.fixture
def script(tmp_path: Path) -> str:
    """An empty script."""
    path = tmp_path / "train.py"
    path.touch()
    return str(path)


def test_scripts_and_modules_are_named_as_for_python(script: str) -> None:
    """A script or module is found with and without an interpreter and its options; its own arguments are left alone."""
    alone = RankProgram.parse([script, "-m", "--epochs", "1"])
    python = RankProgram.parse(["python3.11", "-u", "-X", "dev", script, "a"])
    module = RankProgram.parse(["python", "-m", "package.train", "-np", "3"])

    assert RankProgram((sys.executable,), script, ("-m", "--epochs", "1")) == alone
    assert RankProgram(("python3.11", "-u", "-X", "dev"), script, ("a",)) == python
    assert RankProgram(("python",), "package.train", ("-np", "3"), is_module=True) == module
    assert ("train.py", "package.train") == (alone.title, module.title)


@pytest.mark.parametrize("words", [[], ["python"], ["python", "-m"], ["python", "-u"]])
def test_a_program_is_needed(words: list[str]) -> None:
    """An interpreter alone is none."""
    with pytest.raises(ConfigError, match="no script was given"):
        RankProgram.parse(words)


@pytest.mark.parametrize("launcher", ["torchrun", "/usr/bin/mpirun", "accelerate", "horovodrun"])
def test_another_launcher_is_refused(launcher: str) -> None:
    """Another launcher would start ranks of ranks."""
    with pytest.raises(ConfigError, match="starts ranks itself"):
        RankProgram.parse([launcher, "-np", "2", "train.py"])


def test_a_folder_is_no_script(tmp_path: Path) -> None:
    """Python would look for a `__main__.py` there; users mostly mean another path."""
    with pytest.raises(ConfigError, match="is no file"):
        RankProgram.parse([str(tmp_path)])


def test_both_arms_have_the_user_s_settings_and_no_place() -> None:
    """Knobs stay; another launcher's variables, and those that slow the engine's arm alone, do not."""
    environ = {
        "RINGTUNE_FUSION_BYTES": "4MiB",
        "PATH": "/bin",
        "OMP_NUM_THREADS": "2",
        "AUTOTUNE": "1",
        "RINGTUNE_TIMELINE": "t.json",
        "RANK": "1",
        "RINGTUNE_JOB_KEY": "secret",
        "SLURM_NTASKS": "2",
        "TORCHELASTIC_RUN_ID": "x",
    }

    kept = arm_environment(environ)

    assert {"RINGTUNE_FUSION_BYTES", "PATH", "OMP_NUM_THREADS", "AUTOTUNE"} == set(kept)
    assert "0" == kept["AUTOTUNE"], "ringtune.ddp.autotune() would tune without it"
    assert ["AUTOTUNE", "RINGTUNE_TIMELINE"] == left_out(environ)
    assert [] == left_out({"AUTOTUNE": "0"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("seconds", float("nan")), ("seconds", float("inf")), ("seconds", 0.0), ("pairs", 1), ("steps", 1)),
        *(("warmup_steps", 0), ("silence_s", -1.0), ("ranks", 1)),
    ],
)
def test_numbers_that_cannot_be_are_refused(script: str, option: str, value: float) -> None:
    """The refusal has the option, the value and the allowed values."""
    good = CompareRequest(2, RankProgram.parse([script]))
    request = replace(good, **{option: value})  # type: ignore[arg-type]  # a field's name is a parameter here
    good.check()

    with pytest.raises(ConfigError, match=f"{value:g}"):
        request.check()


def test_variables_are_named_without_their_values(script: str) -> None:
    """Values are in the launcher's environment, for a command line is for everybody to read."""
    request = CompareRequest(2, RankProgram.parse([script]), hosts="a:2", reach={"-p": 22, "-i": None}, sent={"A": "x"})

    assert ["-H", "a:2", "-p", "22", "--env", "A"] == request.launch_options
