# SPDX-License-Identifier: Apache-2.0
"""The tuner's warning that no step is marked, and its checks before training."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.settings.settings import Settings
from ringtune.system.console import Console
from ringtune.tuning.engine import Autotune
from ringtune.tuning.engine.autotune import ServiceNotices
from ringtune.tuning.engine.job import MARKER_LIMIT_ROUNDS, MARKER_LIMIT_S, MarkerWatch
from ringtune.tuning.job.callbacks import RegisteredCallbacks


def counters(tensors: int, rounds: int = 1) -> dict[str, int]:
    """Return the engine's counters after rounds of the same tensors, each reduced alone."""
    full = tensors * min(rounds, 2)
    requests = {"full_requests": full, "cached_requests": tensors * rounds - full}
    return {"steps": 0, "cycles": 10**6, "algorithm.direct": tensors * rounds, "algorithm.other": 0, **requests}


def test_a_job_that_does_nothing_yet_is_not_warned() -> None:
    """Loading data for minutes before the first step is in order."""
    watch = MarkerWatch()

    assert watch.look(counters(0), now_s=0.0) is None
    assert watch.look(counters(0), now_s=10 * MARKER_LIMIT_S) is None


@pytest.mark.parametrize("tensors", [1, 198, 20_000])
def test_many_rounds_without_a_step_are_warned_of_once(tensors: int) -> None:
    """The warning names the call, and says that marking a step is enough; a model of any size has as many rounds."""
    watch = MarkerWatch()

    before = [watch.look(counters(tensors, rounds), now_s=rounds) for rounds in range(1, MARKER_LIMIT_ROUNDS)]
    first = watch.look(counters(tensors, MARKER_LIMIT_ROUNDS), now_s=20.0)
    second = watch.look(counters(tensors, 10 * MARKER_LIMIT_ROUNDS), now_s=1e6)

    assert {None} == set(before)
    assert first is not None
    assert f"in {MARKER_LIMIT_ROUNDS} rounds of the same tensors: the tuner is off until a step is marked" in first
    assert "mark_step()" in first
    assert second is None


def test_a_first_step_that_compiles_is_not_warned_of() -> None:
    """Its gradients are under way for two minutes, before the optimizer steps for the first time."""
    watch = MarkerWatch()

    looks = [watch.look(counters(500), now_s=1000.0 + s) for s in (0.0, 31.0, 120.0)]

    assert [None] * 3 == looks


def test_tensors_that_are_not_known_to_be_the_same_are_warned_of_after_a_while() -> None:
    """The clock starts with the first collective; tensors without a name are new ones each time."""
    watch = MarkerWatch()

    looks = [watch.look(counters(1), now_s=1000.0 + s) for s in (0.0, MARKER_LIMIT_S - 1, MARKER_LIMIT_S + 1)]

    assert [None, None] == looks[:2]
    assert looks[2] is not None


def test_a_log_that_cannot_be_written_is_found_before_training(tmp_path: Path) -> None:
    """The error names variable and path; without tuning the path does not matter."""
    path = str(tmp_path / "missing" / "tune.jsonl")

    Autotune(tmp_path, RegisteredCallbacks()).prepare(Settings.from_environment({"AUTOTUNE_LOG": path}))

    with pytest.raises(ConfigError, match="AUTOTUNE_LOG=.*cannot be written"):
        Autotune(tmp_path, RegisteredCallbacks()).prepare(
            Settings.from_environment({"AUTOTUNE_LOG": path, "AUTOTUNE": "1"})
        )


def test_a_tuner_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    """When the ranks do not meet, the log is closed and the rest is left as it is."""
    autotune = Autotune(tmp_path, RegisteredCallbacks())
    autotune.prepare(Settings.from_environment({"AUTOTUNE_LOG": str(tmp_path / "t.jsonl"), "AUTOTUNE": "1"}))

    autotune.stop()
    autotune.stop()

    assert b"" == (tmp_path / "t.jsonl").read_bytes()


def test_what_the_service_answers_is_shown_at_any_level(capfd: pytest.CaptureFixture[str]) -> None:
    """A job that asked a service says so, and whose config it tries first, also where only warnings are wanted."""
    notices = ServiceNotices(Console(0, "error"))

    notices.info("the search begins with what the service recommends (adopted by 2 jobs)")
    notices.warning("the service is slow")

    shown = capfd.readouterr().err
    assert "ringtune autotune: the search begins with what the service recommends (adopted by 2 jobs)\n" == shown
