# SPDX-License-Identifier: Apache-2.0
"""The cost model: what a step should take under a config, in closed form, from a handful of constants.

It knows the tensors of a step, the layout, and what an allreduce costs here; it is the prior of a first study.
"""

from .costs import EngineCosts, LinkCosts, fitted_costs
from .explanation import explained
from .job import JobShape
from .prior import CostModelPrior
from .step import expected_step_s

__all__ = ["CostModelPrior", "EngineCosts", "JobShape", "LinkCosts", "expected_step_s", "explained", "fitted_costs"]
