# SPDX-License-Identifier: Apache-2.0
"""Torch's own tests of its process groups, under Gloo and under the backend "ringtune"."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from tests.integration.jobs import run_job
from tests.integration.torch_backend.forms import MOSTLY_COMPILED

EXCEPTIONS = {"test_ddp_logging_data_cpu": "compares the name of the backend with gloo, for which this one stands in"}
LIMIT_S = 1800.0


@cache
def outcomes(backend: str, form: str, ranks: int) -> dict[str, dict[str, str]]:
    """Return the outcomes of torch's tests under a backend, by name."""
    command = [sys.executable, "-m", "tests.platforms.torch_suite", backend, "--form", form, "--ranks", str(ranks)]
    finished = run_job(command, deadline_s=LIMIT_S)
    lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    assert lines, finished.text
    return {line["test"]: line for line in lines}


@pytest.mark.parametrize("form", MOSTLY_COMPILED)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_what_passes_under_gloo_passes_here(
    ranks: int, form: str, record_property: Callable[[str, object], None]
) -> None:
    """Every test of torch that passes under Gloo passes under this backend, but for the exceptions with a reason."""
    gloo, ours = outcomes("gloo", "python", ranks), outcomes("ringtune", form, ranks)

    passing = {name for name, line in gloo.items() if line["outcome"] == "passed"}
    failing = {name: ours[name]["reason"] for name in passing - EXCEPTIONS.keys() if ours[name]["outcome"] != "passed"}

    record_property("gloo", str(Counter(line["outcome"] for line in gloo.values())))
    record_property("ringtune", str(Counter(line["outcome"] for line in ours.values())))
    assert len(passing) > 80
    assert {} == failing
