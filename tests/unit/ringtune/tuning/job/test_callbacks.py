# SPDX-License-Identifier: Apache-2.0
"""Callbacks hear every event in order, on threads of their own, and disturb no other observer."""

import threading
from dataclasses import dataclass, field

import pytest

from ringtune.errors import EngineError
from ringtune.tuner import Progress, Result
from ringtune.tuning.job import callbacks
from ringtune.tuning.job.callbacks import QUEUE_CALLS, Callback, CallbackObserver, Moment, RegisteredCallbacks
from tests.unit.ringtune.tuning.job.news import PROGRESS, RESULT

DEADLINE_S = 20.0


class Recording(Callback):
    """A callback that keeps its calls and their threads."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object, Moment]] = []
        self.threads: set[int] = set()
        self.is_closed = False

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Remember the progress."""
        self.calls.append(("progress", progress, moment))
        self.threads.add(threading.get_ident())

    def finished(self, result: Result, moment: Moment) -> None:
        """Remember the result."""
        self.calls.append(("finished", result, moment))

    def warned(self, text: str, moment: Moment) -> None:
        """Remember the warning."""
        self.calls.append(("warned", text, moment))

    def close(self) -> None:
        """Remember the end."""
        self.is_closed = True


@dataclass
class Compared(Callback):
    """Equal to others of the same content, and without a hash, as dataclasses are."""

    warnings: list[str] = field(default_factory=list)

    def warned(self, text: str, moment: Moment) -> None:
        """Remember the warning."""
        self.warnings.append(text)


class Failing(Callback):
    """Fails at its first call, and again when it is closed for that."""

    def __init__(self) -> None:
        self.calls = 0
        self.closed = threading.Event()

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Fail."""
        self.calls += 1
        raise ValueError("no server")

    def close(self) -> None:
        """Fail once more."""
        self.closed.set()
        raise ValueError("still no server")


class Hanging(Callback):
    """Does not come back before it may."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Wait."""
        self.began.set()
        self.may_end.wait(DEADLINE_S)


def observer_of(*callbacks: Callback) -> tuple[CallbackObserver, list[str]]:
    """Return an observer that tells the callbacks, at step 7, and the warnings that it will have made."""
    warnings: list[str] = []
    registered = RegisteredCallbacks()
    for callback in callbacks:
        registered.add(callback)
    return CallbackObserver(registered, lambda: Moment(7, 12.5), warnings.append), warnings


def test_a_callback_hears_everything_in_order_on_a_thread_of_its_own() -> None:
    """A callback gets the job's step with each event, and is closed at the end."""
    callback = Recording()
    observer, warnings = observer_of(callback)

    observer.warned("careful")
    observer.progress(PROGRESS)
    observer.finished(RESULT)
    observer.close()

    moment = Moment(7, 12.5)
    assert [("warned", "careful", moment), ("progress", PROGRESS, moment), ("finished", RESULT, moment)] == (
        callback.calls
    )
    assert callback.is_closed
    assert threading.get_ident() not in callback.threads
    assert [] == warnings


def test_one_that_raises_is_closed_and_dropped_with_one_warning() -> None:
    """At once, long before the job ends; the others go on."""
    failing, sound = Failing(), Recording()
    observer, warnings = observer_of(failing, sound)

    observer.progress(PROGRESS)
    assert failing.closed.wait(DEADLINE_S)
    for _ in range(3):
        observer.progress(PROGRESS)
    observer.close()

    assert 1 == failing.calls
    assert ["callback Failing failed and hears no more of the tuner: ValueError('no server')"] == warnings
    assert 4 == len(sound.calls)


def test_one_that_cannot_be_closed_costs_one_warning() -> None:
    """The callback has received everything before it fails to close."""
    failing = Failing()
    observer, warnings = observer_of(failing)

    observer.warned("careful")
    observer.close()

    assert failing.closed.is_set()
    assert ["callback Failing failed and hears no more of the tuner: ValueError('still no server')"] == warnings


def test_one_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging callback delays neither the tuner nor, beyond the limit, the end; one warning each names it."""
    monkeypatch.setattr(callbacks, "DRAIN_S", 0.05)
    hanging = Hanging()
    observer, warnings = observer_of(hanging)

    for _ in range(QUEUE_CALLS + 10):
        observer.progress(PROGRESS)
    assert hanging.began.wait(DEADLINE_S)
    observer.close()
    hanging.may_end.set()

    assert [
        "callback Hanging: is 256 calls behind; calls are left out from now on",
        "callback Hanging: did not finish within 0.05 s; the last news may be missing",
    ] == warnings


def test_callbacks_may_come_and_go_while_the_tuner_works() -> None:
    """A late callback hears the rest, and a removed one hears no more."""
    early, late = Recording(), Recording()
    registered = RegisteredCallbacks()
    registered.add(early)
    registered.add(early)
    observer = CallbackObserver(registered, lambda: Moment(1), lambda _: None)

    observer.progress(PROGRESS)
    registered.remove(early)
    registered.add(late)
    observer.finished(RESULT)
    observer.close()

    assert ["progress"] == [kind for kind, _, _ in early.calls]
    assert ["finished"] == [kind for kind, _, _ in late.calls]
    assert early.is_closed


def test_a_job_that_is_over_has_the_step_that_it_had() -> None:
    """The engine may be gone before the tuner's last words."""
    callback, moments = Recording(), iter([Moment(5, 1.0)])
    registered = RegisteredCallbacks()
    registered.add(callback)

    def moment() -> Moment:
        for newest in moments:
            return newest
        raise EngineError("the engine is shut down")

    observer = CallbackObserver(registered, moment, lambda _: None)

    observer.progress(PROGRESS)
    observer.finished(RESULT)
    observer.close()

    assert [Moment(5, 1.0)] * 2 == [moment for _, _, moment in callback.calls]


def test_callbacks_that_are_equal_are_each_told() -> None:
    """Callbacks that are equal are both told, for identity counts."""
    first, second, other = Compared(), Compared(), Recording()
    observer, warnings = observer_of(first, second, other, first)

    observer.warned("no room")
    observer.close()

    assert [] == warnings
    assert [["no room"], ["no room"]] == [first.warnings, second.warnings]
    assert ["warned"] == [name for name, _, _ in other.calls]
