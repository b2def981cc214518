# SPDX-License-Identifier: Apache-2.0
"""Designers: they suggest the next config to measure.

`make_designer` builds a designer by name; a new designer is one file and one registry entry.
"""

from .base import (
    Designer,
    DesignerFactory,
    JointDesigner,
    Prediction,
    Suggestion,
    WarmStartedDesigner,
)
from .registry import DEFAULT_DESIGNER, designer_names, load_designer, make_designer
from .wrapper import DesignerWrapper

__all__ = [
    "DEFAULT_DESIGNER",
    "Designer",
    "DesignerFactory",
    "DesignerWrapper",
    "JointDesigner",
    "Prediction",
    "Suggestion",
    "WarmStartedDesigner",
    "designer_names",
    "load_designer",
    "make_designer",
]
