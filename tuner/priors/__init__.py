# SPDX-License-Identifier: Apache-2.0
"""Priors: expected step times from the cost model or from earlier studies."""

from .base import Prior, PriorStudy, UncertainPrior

__all__ = ["Prior", "PriorStudy", "UncertainPrior"]
