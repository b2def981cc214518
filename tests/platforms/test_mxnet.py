# SPDX-License-Identifier: Apache-2.0
"""The page on MXNet: its program trains in an environment of its own, `make setup-mxnet`."""

import os
from pathlib import Path

import pytest

from tests.e2e.documented_commands import blocks_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import run_job

PAGE = REPOSITORY / "docs" / "howto" / "mxnet.md"
PROGRAMS = REPOSITORY / ".venv-mxnet" / "bin"
COMPARISON = """
import numpy as np
np.bool = np.bool_
import mxnet
alone, two = mxnet.nd.load("weights-1.params"), mxnet.nd.load("weights-2.params")
assert 4 == len(alone) and alone.keys() == two.keys()
for name, weight in alone.items():
    np.testing.assert_allclose(two[name].asnumpy(), weight.asnumpy(), rtol=0, atol=1e-5, err_msg=name)
"""


@pytest.mark.long
def test_two_ranks_of_mxnet_end_with_the_weights_of_one_process(tmp_path: Path) -> None:
    """The page's command runs its program; one process, `-np 1`, ends with the same weights."""
    assert PROGRAMS.exists(), f"{PROGRAMS} is missing: make setup-mxnet"
    blocks = blocks_of(PAGE)
    (program,) = [block for block in blocks if block.duty == "file"]
    (tmp_path / program.about).write_text(program.text, encoding="utf-8")
    two = script_of(blocks, ("platform",))
    environ = {"PATH": os.pathsep.join((str(PROGRAMS), os.environ["PATH"])), "PYTHONPATH": ""}

    for number, script in enumerate((two, two.replace("-np 2", "-np 1"), f"python -c '{COMPARISON}'")):
        finished = run_job(["bash", "-c", f"cd '{tmp_path}'\n{script}"], environ)

        assert 0 == finished.code, (number, finished.text)
