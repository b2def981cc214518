# SPDX-License-Identifier: Apache-2.0
"""The browser of all tests that need one."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.browsing import CHROMIUM, FLAGS


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Debian's chromium, once for a file of tests; without it they are skipped by name."""
    if CHROMIUM is None:
        pytest.skip("no chromium: Debian's package of that name is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: the wheel is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()
