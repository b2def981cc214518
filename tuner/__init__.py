# SPDX-License-Identifier: Apache-2.0
"""The tuner: decides which configs to measure, for how long, when to stop, and whether to adopt one.

Pure Python without sockets, SQL or the engine. It drives any `Target` and asks any `Designer`. A public name's module
is imported at the first use: `ringtune run` needs the parameters alone, and numpy is slow to import.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cutting import is_over_limit
    from .designers import (
        DEFAULT_DESIGNER,
        Designer,
        Prediction,
        Suggestion,
        designer_names,
        load_designer,
        make_designer,
    )
    from .logs.log import TuningLog, open_log
    from .logs.reader import LogContents, find_unfinished, read_log
    from .logs.store import KeepingLog, StudyStore
    from .policy.continuous import ContinuousTuning, Question, study_of
    from .policy.reporting import Observer, Progress, Result, SilentObserver, verdict_parts
    from .policy.run import TuningRun
    from .policy.settings import MAX_SECONDS, MAX_STEPS, JobLabels, RunSettings, sample_limit
    from .priors.base import Prior
    from .priors.warm_start import EarlierStudy, earlier_studies
    from .sample import Phase, Sample, StepTimes, Trial, VoidReason, Window
    from .space.config import Config, Value
    from .space.parameters import ENGINE_PARAMETERS, default_config, engine_parameters, search_space, tunable_names
    from .space.readable import readable_changes, readable_cost, readable_size, readable_value
    from .space.search_space import (
        BooleanParameter,
        CategoryParameter,
        NumberParameter,
        Parameter,
        SearchSpace,
        SpaceError,
    )
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
    "verdict_parts",
]

_NAMES: Mapping[str, str] = {
    ".cutting": "is_over_limit",
    ".designers": "DEFAULT_DESIGNER Designer Prediction Suggestion designer_names load_designer make_designer",
    ".logs.log": "TuningLog open_log",
    ".logs.reader": "LogContents find_unfinished read_log",
    ".logs.store": "KeepingLog StudyStore",
    ".policy.continuous": "ContinuousTuning Question study_of",
    ".policy.reporting": "Observer Progress Result SilentObserver verdict_parts",
    ".policy.run": "TuningRun",
    ".policy.settings": "MAX_SECONDS MAX_STEPS JobLabels RunSettings sample_limit",
    ".priors.base": "Prior",
    ".priors.warm_start": "EarlierStudy earlier_studies",
    ".sample": "Phase Sample StepTimes Trial VoidReason Window",
    ".space.config": "Config Value",
    ".space.parameters": "ENGINE_PARAMETERS default_config engine_parameters search_space tunable_names",
    ".space.readable": "readable_changes readable_cost readable_size readable_value",
    ".space.search_space": "BooleanParameter CategoryParameter NumberParameter Parameter SearchSpace SpaceError",
    ".targets": "Target TargetClosed WindowSpec",
}
"""Names by their modules."""
_HOMES: Mapping[str, str] = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Return a public name, whose module is imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    """Return the public names, those whose modules were not imported included."""
    return [*__all__, *globals()]
