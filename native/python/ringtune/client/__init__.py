# SPDX-License-Identifier: Apache-2.0
"""A client of the shared service, thin over httpx: every call typed, bounded in time and size, its failures typed.

It knows the REST interface (`ringtune.shared_service.rest_models`) and no more of the service.
"""

from ringtune.shared_service.rest_models import (
    Candidate,
    CreatedToken,
    DeletedResults,
    Evidence,
    Imported,
    Lease,
    Recommendation,
    StoredBatch,
    StoredResult,
    StoredRun,
    StoredRuns,
    Study,
    StudyKey,
    StudyPage,
    Suggestion,
    Token,
    TokenPage,
)

from .address import bearer_token, page_url, service_url
from .errors import ServiceRefusedError, ServiceReplyError, ServiceUnavailableError
from .service_client import ServiceClient
from .wire import ExchangeLimits

__all__ = [
    "Candidate",
    "CreatedToken",
    "DeletedResults",
    "Evidence",
    "ExchangeLimits",
    "Imported",
    "Lease",
    "Recommendation",
    "ServiceClient",
    "ServiceRefusedError",
    "ServiceReplyError",
    "ServiceUnavailableError",
    "StoredBatch",
    "StoredResult",
    "StoredRun",
    "StoredRuns",
    "Study",
    "StudyKey",
    "StudyPage",
    "Suggestion",
    "Token",
    "TokenPage",
    "bearer_token",
    "page_url",
    "service_url",
]
