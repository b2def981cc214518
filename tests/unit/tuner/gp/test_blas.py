# SPDX-License-Identifier: Apache-2.0
"""Tests of the limit to one thread: the job has its threads back, whoever computed meanwhile."""

from threadpoolctl import threadpool_info, threadpool_limits

from ringtune.tuner.gp.blas import SharedLimit


def blas_threads() -> set[int]:
    """Return the threads of the BLAS libraries that are loaded."""
    return {int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_last_of_two_that_overlap_gives_the_threads_back() -> None:
    """They leave in the order in which they came, as threads may."""
    limit = SharedLimit()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = limit.held(), limit.held()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        within = blas_threads()
        second.__exit__(None, None, None)

        assert {1} == within
        assert {2} == before == blas_threads()
