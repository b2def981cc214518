# SPDX-License-Identifier: Apache-2.0
"""The tuner: decides which configs to measure, for how long, when to stop, and whether to adopt one.

Pure Python without sockets, SQL or the engine. It drives any `Target` and asks any `Designer`.
"""

from .cutting import is_over_limit
from .designers import DEFAULT_DESIGNER, Designer, Prediction, Suggestion, designer_names, load_designer, make_designer
from .logs.log import TuningLog, open_log
from .logs.reader import LogContents, find_unfinished, read_log
from .logs.store import KeepingLog, StudyStore
from .policy.continuous import ContinuousTuning, Question, study_of
from .policy.reporting import Observer, Progress, Result, SilentObserver
from .policy.run import TuningRun
from .policy.settings import MAX_SECONDS, MAX_STEPS, JobLabels, RunSettings, sample_limit
from .priors.base import Prior
from .priors.warm_start import EarlierStudy, earlier_studies
from .sample import Phase, Sample, StepTimes, Trial, VoidReason, Window
from .space.config import Config, Value
from .space.parameters import ENGINE_PARAMETERS, default_config, engine_parameters, search_space, tunable_names
from .space.readable import readable_changes, readable_cost, readable_size, readable_value
from .space.search_space import BooleanParameter, CategoryParameter, NumberParameter, Parameter, SearchSpace, SpaceError
from .targets import Target, TargetClosed, WindowSpec

__all__ = [
    "DEFAULT_DESIGNER",
    "ENGINE_PARAMETERS",
    "MAX_SECONDS",
    "MAX_STEPS",
    "BooleanParameter",
    "CategoryParameter",
    "Config",
    "ContinuousTuning",
    "Designer",
    "EarlierStudy",
    "JobLabels",
    "KeepingLog",
    "LogContents",
    "NumberParameter",
    "Observer",
    "Parameter",
    "Phase",
    "Prediction",
    "Prior",
    "Progress",
    "Question",
    "Result",
    "RunSettings",
    "Sample",
    "SearchSpace",
    "SilentObserver",
    "SpaceError",
    "StepTimes",
    "StudyStore",
    "Suggestion",
    "Target",
    "TargetClosed",
    "Trial",
    "TuningLog",
    "TuningRun",
    "Value",
    "VoidReason",
    "Window",
    "WindowSpec",
    "default_config",
    "designer_names",
    "earlier_studies",
    "engine_parameters",
    "find_unfinished",
    "is_over_limit",
    "load_designer",
    "make_designer",
    "open_log",
    "read_log",
    "readable_changes",
    "readable_cost",
    "readable_size",
    "readable_value",
    "sample_limit",
    "search_space",
    "study_of",
    "tunable_names",
]
