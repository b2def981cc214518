# SPDX-License-Identifier: Apache-2.0
"""The tuner's Gaussian process: kernel, fit and acquisition functions. Importing the package does not import scipy."""

from .values import JointPosterior, Observations, Points

__all__ = ["JointPosterior", "Observations", "Points"]
