# SPDX-License-Identifier: Apache-2.0
"""Count of this process's meetings, one for each job key: pooled processes meet fresh ones under a new key."""

from collections import Counter
from collections.abc import Mapping

from .explicit import JOB_KEY_NAME, job_digest


class Generations:
    """Number of times that this process has called `init()` before, by job key. Used from the main thread.

    Spark reuses its Python workers and Ray its actors, beside new ones. Ranks that share a key have met equally often
    under it; how often each of them met others under another key is of no account.
    """

    def __init__(self) -> None:
        """Count from 0."""
        self._counts: Counter[str] = Counter()  # by the key's digest; "" where the launcher gives no key

    def next(self, environ: Mapping[str, str]) -> int:
        """Return the number of meetings under the key of an environment so far, and count one more."""
        key = environ.get(JOB_KEY_NAME, "")
        name = job_digest(key) if key else ""
        self._counts[name] += 1
        return self._counts[name] - 1
