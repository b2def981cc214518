# SPDX-License-Identifier: Apache-2.0
"""Several observers of one tuning run: each hears everything, and none can keep the others from it."""

from collections.abc import Callable, Sequence

from ringtune.tuner import Observer, Progress, Result


class Observers:
    """Passes on what a tuning run tells; used from the tuning thread alone."""

    def __init__(self, observers: Sequence[Observer], warn: Callable[[str], None]) -> None:
        """Tell each of `observers`, in this order.

        Args:
            observers: One that raises hears no more.
            warn: Told once of each that raised.
        """
        self._observers = list(observers)
        self._warn = warn

    def progress(self, progress: Progress) -> None:
        """Tell all where the run stands."""
        self._tell(lambda observer: observer.progress(progress))

    def finished(self, result: Result) -> None:
        """Tell all the result."""
        self._tell(lambda observer: observer.finished(result))

    def warned(self, text: str) -> None:
        """Tell all a warning."""
        self._tell(lambda observer: observer.warned(text))

    def _tell(self, call: Callable[[Observer], None]) -> None:
        self._observers = [observer for observer in self._observers if self._hears(observer, call)]

    def _hears(self, observer: Observer, call: Callable[[Observer], None]) -> bool:
        """Make a call; return whether the observer took it."""
        try:
            call(observer)
        except Exception as error:  # noqa: BLE001  (whoever watches must not stop tuning)
            self._warn(f"{type(observer).__name__} failed and hears no more of the tuning run: {error!r}")
            return False
        return True
