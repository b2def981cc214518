# SPDX-License-Identifier: Apache-2.0
"""Refusals before anything is launched."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.errors import ConfigError
from ringtune.tuning.command import TuneRequest, run_tune, tune

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ()}, "there is no command"),
        ({"command": ("no-such-program-at-all",)}, "there is no such program"),
        ({"target": "gloo"}, "--target gloo: not known; known are openmpi, mpich, nccl, horovod"),
        ({"max_samples": 0}, "--max-samples 0 is not possible; allowed: 1 to 10000"),
        ({"max_steps": 0}, "--max-steps 0 is not possible; allowed: 1 to 1000000000"),
        ({"max_seconds": float("nan")}, "--max-seconds nan is not possible; allowed: 1 to 604800"),
        ({"pairs": 1}, "--pairs 1 is not possible"),
        ({"parallel": 0}, "--parallel 0 is not possible; allowed: 1 to 256"),
        ({"parallel": 257}, "--parallel 257 is not possible; allowed: 1 to 256"),
        ({"trial_timeout_s": 0.0}, "--trial-timeout-s 0 is not possible"),
        ({"trial_timeout_s": float("nan")}, "--trial-timeout-s nan is not possible"),
        ({"designer": "oracle"}, "--designer oracle: not known"),
        ({"score_regex": "x"}, "0 groups"),
        ({"score_wall": True, "higher_is_better": True}, "--score wall is the launch's duration"),
        ({"only": ("speed",)}, "--only speed: horovod has no such knob"),
    ],
)
def test_impossible_requests_are_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    """The refusal has the fault and a right form; no file is written."""
    fields = {"target": "horovod", "command": ("true",), "output": tmp_path / "out", **changes}

    with pytest.raises(ConfigError, match=said):
        run_tune(TuneRequest(**fields), {"PATH": "/usr/bin:/bin"}, Console(file=io.StringIO()))  # type: ignore[arg-type]

    assert [] == list(tmp_path.iterdir())


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Before the first launch."""
    request = TuneRequest("horovod", ("true",), tmp_path, log=tmp_path / "no" / "log")

    with pytest.raises(ConfigError, match=r"--log .*no/log cannot be written: No such file or directory"):
        run_tune(request, {"PATH": "/usr/bin:/bin"}, Console(file=io.StringIO()))


def test_more_launches_than_processors_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    """Launches of a scheduler compute elsewhere, so that more than this host's processors are no fault."""
    monkeypatch.setattr(tune, "usable_cores", lambda: 2)
    requests = [TuneRequest("horovod", ("true",), tmp_path, log=tmp_path / "no" / "log", parallel=n) for n in (2, 3)]

    for request in requests:
        with pytest.raises(ConfigError, match="--log"):
            run_tune(request, {"PATH": "/usr/bin:/bin"}, Console(file=io.StringIO()))

    assert ["--parallel 3 is more than the 2 processors"] == re.findall(
        r"--parallel \d .* processors", capfd.readouterr().err
    )


def test_a_folder_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    """Before the first launch: after a search of hours the winner would be lost."""
    started = tmp_path / "started"
    request = TuneRequest("horovod", ("touch", str(started)), Path("/proc/x"), score_wall=True, max_samples=1, pairs=2)

    with pytest.raises(ConfigError, match=r"/proc/x cannot be written .*; choose a folder that is yours with --output"):
        run_tune(request, {"PATH": "/usr/bin:/bin"}, Console(file=io.StringIO()))

    assert not started.exists()
