# SPDX-License-Identifier: Apache-2.0
"""What the service decides: who gets which config, what a result is worth, what is recommended.

It knows the store and the tuner, and nothing of HTTP. `Service` is the way in.
"""

from .policy import Policy
from .service import Service

__all__ = ["Policy", "Service"]
