# SPDX-License-Identifier: Apache-2.0
"""The Gaussian process of the tuner: its kernel, its fit, and what it expects to gain."""

from .acquisition import noisy_expected_improvement
from .process import GaussianProcess, Observations, fitted_process

__all__ = ["GaussianProcess", "Observations", "fitted_process", "noisy_expected_improvement"]
