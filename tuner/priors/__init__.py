# SPDX-License-Identifier: Apache-2.0
"""Priors: expectations of step times from the cost model or from earlier studies."""

from .base import Experience, Prior, UncertainPrior

__all__ = ["Experience", "Prior", "UncertainPrior"]
