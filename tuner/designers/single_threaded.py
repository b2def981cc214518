# SPDX-License-Identifier: Apache-2.0
"""How scikit-optimize is called beside a job: on one core, and without warnings that nobody there can heed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_and_modest() -> Iterator[None]:
    """Compute on one core, and do not warn.

    The matrices are tiny: a second BLAS thread only spins, five times slower on two busy cores and at the expense of
    the job that trains beside us. A hyper-parameter at its bound is no failure, and a variance of -1e-12 is set to 0.
    """
    from ringtune.tuner.gp.blas import ONE_BLAS_THREAD  # noqa: PLC0415  (imports scipy, of which few have need)

    with ONE_BLAS_THREAD.held(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
