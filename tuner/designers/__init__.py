# SPDX-License-Identifier: Apache-2.0
"""Designers: what to try next. `make_designer` builds one by name; a new one is one file and one registry entry."""

from .base import Designer, DesignerFactory, ExperiencedDesigner, JointDesigner, Prediction, Suggestion
from .registry import DEFAULT_DESIGNER, designer_names, load_designer, make_designer
from .wrapper import DesignerWrapper

__all__ = [
    "DEFAULT_DESIGNER",
    "Designer",
    "DesignerFactory",
    "DesignerWrapper",
    "ExperiencedDesigner",
    "JointDesigner",
    "Prediction",
    "Suggestion",
    "designer_names",
    "load_designer",
    "make_designer",
]
