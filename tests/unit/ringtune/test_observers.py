# SPDX-License-Identifier: Apache-2.0
"""Several observers of one tuning run."""

from ringtune.observers import Observers
from ringtune.tuner import Result, RunSettings, TuningRun, make_designer, open_log
from ringtune.tuner.testing import SyntheticTarget
from tests.unit.tuner.recording import RecordingObserver


class FailingObserver(RecordingObserver):
    """Hears one thing and breaks."""

    def progress(self, progress: object) -> None:
        """Break."""
        raise RuntimeError("out of paper")


def unheard(text: str) -> None:
    """Fail: nothing was to be warned of."""
    raise AssertionError(text)


def tuned(observers: Observers) -> Result:
    """Return the end of a short tuning run."""
    target = SyntheticTarget(seed=1)
    designer = make_designer("random", target.space(), 1)
    settings = RunSettings(run_id="test", max_samples=2)
    return TuningRun(target, designer, settings, open_log(None), observers, clock=target.clock).run()


def test_each_observer_hears_everything() -> None:
    """In the same words as alone."""
    first, second, alone = RecordingObserver(), RecordingObserver(), RecordingObserver()

    tuned(Observers([first, second], unheard))
    tuned(Observers([alone], unheard))

    assert alone.seen == first.seen == second.seen
    assert 1 == len(first.results) == len(second.results)


def test_an_observer_that_raises_is_dropped_with_one_warning() -> None:
    """The others, before it and after it, hear on; so does the run."""
    failing, before, after = FailingObserver(), RecordingObserver(), RecordingObserver()
    warnings: list[str] = []

    result = tuned(Observers([before, failing, after], warnings.append))

    assert result.is_complete
    assert before.seen == after.seen != []
    assert 1 == len(before.results) == len(after.results)
    assert [] == failing.results
    assert ["FailingObserver failed and hears no more of the tuning run: RuntimeError('out of paper')"] == warnings


def test_warnings_reach_all() -> None:
    """Those of the run, word for word."""
    first, second = RecordingObserver(), RecordingObserver()

    Observers([first, second], unheard).warned("mind the gap")

    assert ["mind the gap"] == first.warnings == second.warnings
