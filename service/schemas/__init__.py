# SPDX-License-Identifier: Apache-2.0
"""The bodies and replies of the REST interface, version 1: the one description of what goes over the wire.

Duty: shape and bounds. What the values mean is decided in `ringtune.service.domain`; nothing here knows of it.
"""

from .archive import Imported
from .jobs import Job, JobFacts, JobList, Machine
from .problems import FieldError, Problem
from .recommendations import Candidate, Evidence, Recommendation
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
