# SPDX-License-Identifier: Apache-2.0
"""Names that the program and its ranks share."""

WAYS = ("floor", "in step", "ddp", "ringtune")
"""Ways to reduce gradients; the first two do not."""
PARTS = ("forward", "backward", "optimizer")
"""Parts of a step; the optimizer's includes the wait for gradients that are not reduced yet."""
