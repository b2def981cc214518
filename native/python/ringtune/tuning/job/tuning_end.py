# SPDX-License-Identifier: Apache-2.0
"""End of a job's tuning: an event, with the reason of whoever ended it although the job goes on."""

import threading


class TuningEnd(threading.Event):
    """Event that is set when tuning is over.

    Attributes:
        reason: Reason for an end while the job goes on, a sentence without a full stop; empty at the job's own end.
    """

    def __init__(self) -> None:
        """Begin before the end."""
        super().__init__()
        self.reason = ""

    def end(self, reason: str) -> None:
        """End tuning for a reason; the first end counts."""
        if not self.is_set():
            self.reason = reason
        self.set()
