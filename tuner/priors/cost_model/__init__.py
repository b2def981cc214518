# SPDX-License-Identifier: Apache-2.0
"""The cost model: closed-form step time of a config, from the job's tensors and layout and a few cost constants.

It is the prior of a first study.
"""

from .costs import EngineCosts, LinkCosts, fitted_costs
from .explanation import explained
from .job import JobShape
from .prior import CostModelPrior
from .step import expected_step_s

__all__ = ["CostModelPrior", "EngineCosts", "JobShape", "LinkCosts", "expected_step_s", "explained", "fitted_costs"]
