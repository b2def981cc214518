# SPDX-License-Identifier: Apache-2.0
"""Execution context of scikit-optimize beside a training job: one BLAS thread, no warnings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS to one thread and suppress warnings inside the `with` block.

    The matrices are tiny: a second BLAS thread only spins, is five times slower on two busy cores, and takes processor
    time from the training job. The suppressed warnings need no action: a hyper-parameter at its bound is no failure,
    and scikit-optimize sets a variance of -1e-12 to 0.
    """
    from ringtune.tuner.gp.blas import ONE_BLAS_THREAD  # noqa: PLC0415  (imports scipy, which few callers need)

    with ONE_BLAS_THREAD.held(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
