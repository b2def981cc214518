# SPDX-License-Identifier: Apache-2.0
"""Platforms and ringtune in one environment."""

import subprocess
import sys

import pytest

PLATFORMS = "accelerate, hyperopt, kubeflow, lightning, optuna, pyspark, ray, transformers"
FIRST = f"import sys, ringtune.torch as hvd; assert not {{'pyspark', 'ray'}} & set(sys.modules); import {PLATFORMS}"
LAST = f"import {PLATFORMS}; import ringtune.torch as hvd"


@pytest.mark.parametrize("imports", [FIRST, LAST])
def test_ringtune_and_the_platforms_are_imported_in_either_order(imports: str) -> None:
    """Neither hides a module of the other."""
    code = f"{imports}; hvd.init(); assert hvd.size() == 1"

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)

    assert 0 == finished.returncode, finished.stderr
