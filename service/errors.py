# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818  (names say the answer to a caller, as the codes do)
"""Every error that the service answers with: a stable code, the HTTP status it means, a title and the remedy.

::

    RingtuneError
     `- ServiceError
         |- InvalidRequest        422  the call made no sense; no row was stored
         |- ImplausibleResult     422  a result that cannot be true; no row was stored
         |- OutsideSearchSpace    422  a config or space that is not legal; no row was stored
         |- Unauthenticated       401  no token, or not a valid one
         |- Forbidden             403  the token lacks the scope
         |- UnknownHost           421  the Host or Origin header names another machine
         |- BodyTooLarge          413  counted on the stream
         |- RateLimited           429  has `retry_after_s`
         |- QuotaExceeded         429  has `retry_after_s`; no row was stored
         |- NotFound              404
         |   |- StudyNotFound
         |   |- TrialNotFound
         |   |- TokenNotFound
         |   `- SessionNotFound
         |- Conflict              409  the stored rows stay as they are
         |   |- ResultConflict         another body was stored under this trial
         |   |- TrialConflict          another job asked for this trial
         |   |- JobConflict            the job id was first used with another token
         |   |- RunConflict            another log was stored under this run
         |   `- LeaseLost              the lease expired, was released, or a newer one holds
         |- Unavailable           503  has `retry_after_s`; whether the write was stored is not known: ask again
         |   |- Overloaded             the queue is full; no row was stored
         |   |- StoreUnavailable       the database does not answer
         |   `- ShuttingDown           no row was stored
         `- SchemaError           503  the database's schema is not this program's; the service does not start

This module knows no HTTP framework. Every error leaves the service usable.
"""

from typing import ClassVar

from ringtune.errors import RingtuneError


class ServiceError(RingtuneError):
    """Root of the errors that the service answers with.

    Attributes:
        code: Stable, for programs.
        status: The HTTP status.
        title: For people, the same for every error of the code.
        detail: The event, its values, and the remedy.
        retry_after_s: When to try again, or None where that would not help.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "The service failed"

    def __init__(self, detail: str, *, retry_after_s: float | None = None) -> None:
        """Say the event, and when to try again."""
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s


class InvalidRequest(ServiceError):
    """The call made no sense; no row was stored."""

    code, status, title = "invalid_request", 422, "The request is not valid"


class ImplausibleResult(ServiceError):
    """A result that cannot be true, such as a mean below half of the median; no row was stored."""

    code, status, title = "implausible_result", 422, "The result cannot be true"


class OutsideSearchSpace(ServiceError):
    """A config or a search space that is not legal; no row was stored."""

    code, status, title = "outside_search_space", 422, "Outside of the search space"


class Unauthenticated(ServiceError):
    """There was no token, or not a valid one."""

    code, status, title = "unauthenticated", 401, "A valid token is needed"


class Forbidden(ServiceError):
    """The token lacks the scope."""

    code, status, title = "forbidden", 403, "The token does not allow this"


class UnknownHost(ServiceError):
    """The Host or Origin header names another machine."""

    code, status, title = "unknown_host", 421, "The Host or Origin header is not this service's"


class BodyTooLarge(ServiceError):
    """The body is larger than allowed."""

    code, status, title = "body_too_large", 413, "The body is too large"


class RateLimited(ServiceError):
    """Too many requests with this token."""

    code, status, title = "rate_limited", 429, "Too many requests"


class QuotaExceeded(ServiceError):
    """The token holds as much as one may; no row was stored."""

    code, status, title = "quota_exceeded", 429, "The token's quota is used up"


class NotFound(ServiceError):
    """There is no such thing."""

    code, status, title = "not_found", 404, "Not found"


class StudyNotFound(NotFound):
    """There is no such study."""

    code, title = "study_not_found", "There is no such study"


class TrialNotFound(NotFound):
    """The trial was not asked for."""

    code, title = "trial_not_found", "There is no such trial"


class TokenNotFound(NotFound):
    """There is no such token."""

    code, title = "token_not_found", "There is no such token"


class SessionNotFound(NotFound):
    """There is no such session of a browser."""

    code, title = "session_not_found", "There is no such session"


class Conflict(ServiceError):
    """A conflict with stored data, which stay as they are."""

    code, status, title = "conflict", 409, "What is stored says otherwise"


class ResultConflict(Conflict):
    """Another body was stored under this trial."""

    code, title = "result_conflict", "The trial has another result"


class TrialConflict(Conflict):
    """Another job asked for this trial, or reported it."""

    code, title = "trial_conflict", "The trial is another job's"


class JobConflict(Conflict):
    """The job id was first used with another token; no row was stored."""

    code, title = "job_conflict", "The job belongs to another token"


class RunConflict(Conflict):
    """Another log was stored under this run."""

    code, title = "run_conflict", "The run has another log"


class LeaseLost(Conflict):
    """The lease expired, was released, or a newer one holds."""

    code, title = "lease_lost", "The lease is lost"


class Unavailable(ServiceError):
    """Not now; every call may be repeated as it is."""

    code, status, title = "unavailable", 503, "Not available now"

    def __init__(self, detail: str, *, retry_after_s: float = 1.0) -> None:
        """Say the event, and when to try again."""
        super().__init__(detail, retry_after_s=retry_after_s)


class Overloaded(Unavailable):
    """There is more to do than can be done; no row was stored."""

    code, title = "overloaded", "Too much to do"


class StoreUnavailable(Unavailable):
    """The database does not answer; whether the write was stored is not known."""

    code, title = "store_unavailable", "The database does not answer"


class ShuttingDown(Unavailable):
    """The service ends; no row was stored."""

    code, title = "shutting_down", "The service is shutting down"


class SchemaError(ServiceError):
    """The database's schema is not this program's; the service does not start."""

    code, status, title = "schema_mismatch", 503, "The database's schema is not this program's"
