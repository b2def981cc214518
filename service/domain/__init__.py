# SPDX-License-Identifier: Apache-2.0
"""Decisions of the service: the next config of a job, the value of a result, recommendations.

It knows the store and the tuner, and no HTTP. `Service` is the way in.
"""

from .policy import ServiceLimits
from .service import Service

__all__ = ["Service", "ServiceLimits"]
