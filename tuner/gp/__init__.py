# SPDX-License-Identifier: Apache-2.0
"""The Gaussian process of the tuner: its kernel, its fit, and what it expects to gain. `process` imports scipy."""

from .values import JointPosterior, Observations, Points

__all__ = ["JointPosterior", "Observations", "Points"]
