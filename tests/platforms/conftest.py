# SPDX-License-Identifier: Apache-2.0
"""Parallel runs of these tests, by `-n`: the tests of one platform's session stay together in one process."""

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Return the scheduler of pytest-xdist that hands out shares."""
    from tests.platforms.shares import ShareScheduling

    return ShareScheduling(config, log)
