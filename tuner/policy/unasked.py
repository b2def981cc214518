# SPDX-License-Identifier: Apache-2.0
"""Tuning that a job's user has not asked for: it begins late, and may cost a very small share of the time so far.

A job that is shorter than `BEGINS_AFTER_S` runs as without a tuner. In a longer one every config that might cost more
than the share allows waits until the job has trained for long enough; meanwhile the best config so far is in force.
"""

from dataclasses import replace

from ringtune.tuner.policy_numbers import POLICY

from .settings import DEFAULT_MAX_SAMPLES, Limits

BEGINS_AFTER_S = 60.0
"""Seconds of training, from the first marked step, after which tuning begins."""
UNASKED_POLICY = replace(POLICY, exploration_grace_s=0.0, exploration_share=0.005, feared_factor=4.0)
"""Constants of the policy: half a percent of the time since the first step, from the start."""
UNASKED_LIMITS = Limits(max_samples=DEFAULT_MAX_SAMPLES)
"""Budget without a limit of seconds or steps: a search that waits costs the job no time."""
