# SPDX-License-Identifier: Apache-2.0
"""Errors of a call to the service; after each of these the client stays usable.

::

    StoreError
     |- ServiceUnavailableError    no answer, or "not now": the same call may succeed later
     |- ServiceRefusedError        the answer is no: the same call will fail again
     `- ServiceReplyError          something answered, but not as the service does
"""

from ringtune.errors import StoreError


class ServiceUnavailableError(StoreError):
    """The service did not answer, or not in time, or said "not now" (429, 5xx); the request may have arrived.

    Attributes:
        retry_after_s: Seconds for which the service asks to be left alone, or None.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServiceRefusedError(StoreError):
    """The service refused the call (4xx), which had no effect.

    Attributes:
        status: The HTTP status.
        code: The problem's stable code; empty where the answer had none.
    """

    def __init__(self, message: str, *, status: int = 400, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ServiceReplyError(StoreError):
    """A reply of another program than this service, or of another version: it was not used."""
