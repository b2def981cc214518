# SPDX-License-Identifier: Apache-2.0
"""Tests of the limit to one thread: it holds for all algebra, and the job has its threads back afterwards."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from threadpoolctl import threadpool_info, threadpool_limits

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.gp.blas import SharedLimit
from ringtune.tuner.gp.process import GaussianProcess, fitted_process

POINTS = Points.without_prior(np.random.default_rng(0).random((9, 2)))
OBSERVED = Observations(POINTS, np.random.default_rng(1).random(9), np.zeros(9))


def blas_threads() -> set[int]:
    """Return the threads of the BLAS libraries that are loaded."""
    return {int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"}


@contextmanager
def living_thread() -> Iterator[Callable[[Callable[[], object]], object]]:
    """Return the function that runs calls in a thread of their own, which lives on after each."""
    with ThreadPoolExecutor(1) as executor:
        yield lambda call: executor.submit(call).result()


def test_the_last_of_two_that_overlap_gives_the_threads_back() -> None:
    """Two limits that overlap may end in the order in which they began, as threads may."""
    limit = SharedLimit()
    with threadpool_limits(2, user_api="blas"), living_thread() as in_one, living_thread() as in_another:
        before = blas_threads()
        first, second = limit.held(), limit.held()
        in_one(first.__enter__)
        in_another(second.__enter__)
        in_one(lambda: first.__exit__(None, None, None))
        within = blas_threads()
        in_another(lambda: second.__exit__(None, None, None))

        assert {1} == within
        assert {2} == before == blas_threads()


def test_it_holds_for_a_thread_although_another_has_set_limits() -> None:
    """The limit holds in a job whose own thread lives on."""
    limit = SharedLimit()
    within = set[int]()

    def compute() -> None:
        with limit.held():
            within.update(blas_threads())

    with threadpool_limits(2, user_api="blas"), living_thread() as in_one:
        with limit.held():
            pass
        in_one(compute)

        assert {1} == within
        assert {2} == blas_threads()


@pytest.mark.parametrize(
    "asked",
    [
        lambda fitted: fitted.predict(POINTS),
        lambda fitted: fitted.covariance(POINTS),
        lambda fitted: fitted.joint(POINTS, POINTS),
        lambda fitted: fitted.expected_improvement(POINTS, POINTS, np.zeros((4, 9))),
        lambda fitted: fitted.lowest_means_after(POINTS, Points.without_prior(np.ones((1, 2)))),
    ],
)
def test_whatever_is_asked_of_a_process_is_computed_by_one_thread(
    asked: Callable[[GaussianProcess], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no fit is part of it."""
    fitted = fitted_process(OBSERVED)
    seen = set[int]()

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.update(blas_threads())
        return solve_triangular(*arguments, **options)

    monkeypatch.setattr("ringtune.tuner.gp.process.solve_triangular", watched)
    with threadpool_limits(2, user_api="blas"):
        asked(fitted)

    assert {1} == seen


def test_the_libraries_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search reads the list of all that is mapped, which takes longer than a prediction."""
    fitted = fitted_process(OBSERVED)
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", None)

    mean, _ = fitted.predict(POINTS)

    assert np.isfinite(mean).all()
