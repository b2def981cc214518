# SPDX-License-Identifier: Apache-2.0
"""Several observers of one tuning run."""

from ringtune.tuner import Result, RunSettings, TuningRun, make_designer, open_log
from ringtune.tuner.testing import SyntheticTarget
from ringtune.tuning.job.observers import Observers, TimelineObserver
from tests.unit.tuner.recording import ClosedObserver


class FailingObserver(ClosedObserver):
    """Hears one thing and breaks."""

    def progress(self, progress: object) -> None:
        """Break."""
        raise RuntimeError("out of paper")


def unheard(text: str) -> None:
    """Fail, as no warning is expected."""
    raise AssertionError(text)


def tuned(observers: Observers) -> Result:
    """Return the end of a short tuning run."""
    target = SyntheticTarget(seed=1)
    designer = make_designer("random", target.space(), 1)
    settings = RunSettings(run_id="test", max_samples=2)
    return TuningRun(target, designer, settings, open_log(None), observers, clock=target.clock).run()


def test_an_observer_that_raises_is_dropped_with_one_warning() -> None:
    """The others, before it and after it, hear on; so does the run."""
    failing, before, after = FailingObserver(), ClosedObserver(), ClosedObserver()
    warnings: list[str] = []

    result = tuned(Observers([before, failing, after], warnings.append))

    assert result.is_complete
    assert before.seen == after.seen != []
    assert 1 == len(before.results) == len(after.results)
    assert [] == failing.results
    assert ["FailingObserver failed and hears no more of the tuning run: RuntimeError('out of paper')"] == warnings


def test_all_are_closed_also_those_that_were_dropped() -> None:
    """A display that failed once still leaves the terminal as it was; one that cannot be closed holds up no other."""

    class Stuck(ClosedObserver):
        def close(self) -> None:
            raise RuntimeError("stuck")

    failing, after = FailingObserver(), ClosedObserver()
    warnings: list[str] = []
    observers = Observers([failing, Stuck(), after], warnings.append)
    tuned(observers)

    observers.close()

    assert (1, 1) == (failing.closed, after.closed)
    assert 2 == len(warnings)
    assert "stuck" in warnings[1]


def test_the_timeline_has_samples_verdict_and_warnings() -> None:
    """Each is an event beside the engine's own."""
    events: list[tuple[str, str]] = []

    class Events:
        def timeline_event(self, name: str, detail: str) -> None:
            events.append((name, detail))

    alone = ClosedObserver()
    observers = Observers([TimelineObserver(Events()), alone], unheard)
    result = tuned(observers)
    observers.warned("mind the gap")
    observers.close()

    assert ("tuner verdict", result.verdict) in events
    assert ("tuner warning", "mind the gap") == events[-1]
    assert ["mind the gap"] == alone.warnings
    assert len(alone.seen) + 2 == len(events)
    assert {"tuner warmup", "tuner baseline", "tuner search"} <= {name for name, _ in events}
