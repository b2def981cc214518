# SPDX-License-Identifier: Apache-2.0
"""Models of the REST interface, version 1: bodies, replies and query parameters, for the service and its client alike.

The service validates requests with them, builds replies of them, and describes itself by them; the client reads replies
with the same classes. They state shape and bounds; `ringtune.service.domain` decides about values. A reply that the
service builds has exactly the fields named here; the client ignores those that a newer service adds.
"""

from .archive import Imported
from .jobs import Job, JobFacts, JobList, Machine
from .problems import FieldError, Problem
from .recommendations import Candidate, Evidence, Recommendation, RecommendationParams
from .results import Adoption, Result, ResultBatch, StepTimes, StoredBatch, StoredResult, TrialResult
from .runs import StoredRun, StoredRuns, TuningLog
from .studies import NewStudy, SearchSpace, Study, StudyKey, StudyPage
from .suggestions import Ask, Lease, Renewal, Suggestion
from .tokens import CreatedToken, DeletedResults, NewToken, Scope, Token, TokenChange, TokenPage

__all__ = [
    "Adoption",
    "Ask",
    "Candidate",
    "CreatedToken",
    "DeletedResults",
    "Evidence",
    "FieldError",
    "Imported",
    "Job",
    "JobFacts",
    "JobList",
    "Lease",
    "Machine",
    "NewStudy",
    "NewToken",
    "Problem",
    "Recommendation",
    "RecommendationParams",
    "Renewal",
    "Result",
    "ResultBatch",
    "Scope",
    "SearchSpace",
    "StepTimes",
    "StoredBatch",
    "StoredResult",
    "StoredRun",
    "StoredRuns",
    "Study",
    "StudyKey",
    "StudyPage",
    "Suggestion",
    "Token",
    "TokenChange",
    "TokenPage",
    "TrialResult",
    "TuningLog",
]
