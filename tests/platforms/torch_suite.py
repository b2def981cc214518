# SPDX-License-Identifier: Apache-2.0
"""Runs torch's own tests of its process groups, `torch.testing._internal.distributed.distributed_test`.

    python -m tests.platforms.torch_suite gloo|ringtune [--form python] [--ranks N] [--limit SECONDS] [NAME…]

The tests ask for their backend by name and skip unknown ones, so that under "ringtune" they go on to say "gloo" and get
this backend for it. One line of JSON per test goes to standard output: name, outcome, reason.
"""

import argparse
import io
import json
import os
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr
from typing import Any

from tests.integration.torch_backend.forms import choose_form


def main() -> None:
    """Run the tests that the command line names, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", choices=["gloo", "ringtune", "named"])
    parser.add_argument("--form", choices=["compiled", "python"], default="compiled")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "BACKEND": "ringtune" if given.backend == "named" else "gloo",
            "WORLD_SIZE": str(given.ranks),
            "TEMP_DIR": folder,
        }
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        case = test_case(given.limit)
        choose_form(given.form, 0)
        if given.backend == "ringtune":
            stand_in_for_gloo()
        names = given.names or unittest.TestLoader().getTestCaseNames(case)
        for name in names:
            begin_s = time.monotonic()
            outcome, reason = run(case, name)
            took_s = round(time.monotonic() - begin_s, 1)
            sys.stdout.write(json.dumps({"test": name, "outcome": outcome, "s": took_s, "reason": reason}) + "\n")
            sys.stdout.flush()


def test_case(limit_s: int) -> type[unittest.TestCase]:
    """Return torch's tests as a class whose ranks are forked from this process."""
    import torch
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test

    class Forked(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()  # type: ignore[no-untyped-call]
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common_distributed.get_timeout = lambda test_id: limit_s
    return Forked


def stand_in_for_gloo() -> None:
    """Give programs that ask for Gloo this backend."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d
    from torch.testing._internal.distributed import distributed_test

    from ringtune.torch_backend.compiled import form
    from ringtune.torch_backend.meeting import Member

    class Options:
        """Options that torch sets and never reads."""

    class StandIn(form().group_class):  # type: ignore[misc]
        def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
            others = (-1,) if dist.is_initialized() else ()
            super().__init__(Member(store, rank, size, timeout.total_seconds(), others))
            self.options = Options()

    # The profiler's events of a backend are looked for under the names in these lists, where ours is not.
    distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()
    distributed_c10d.ProcessGroupGloo = StandIn  # type: ignore[misc]


def run(case: type[unittest.TestCase], name: str) -> tuple[str, str]:
    """Run one test; return its outcome, and why it failed or was skipped."""
    result = unittest.TestResult()
    stderr = io.StringIO()
    with redirect_stderr(stderr):
        case(name).run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    faults = result.errors + result.failures
    if faults:
        return "failed", faults[0][1][-3000:]
    return "passed", ""


if __name__ == "__main__":
    main()
