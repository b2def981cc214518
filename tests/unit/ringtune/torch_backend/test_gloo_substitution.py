# SPDX-License-Identifier: Apache-2.0
"""The backend in the place of Gloo, on demand."""

import os
import subprocess
import sys

import pytest
from torch import backends
from torch.distributed import distributed_c10d

from ringtune.settings.variables import TORCH_BACKEND_NAME
from ringtune.torch_backend.gloo_substitution import served_backend
from ringtune.torch_backend.registration import SUBSTITUTE_NAME

LOOK = """
import sys
import torch.distributed
print(torch.distributed.distributed_c10d._new_process_group_helper.__code__.co_filename.split("/")[-1])
print([name for name in sys.modules if name.startswith("ringtune.") and name.split(".")[1] not in sys.argv[1:]])
"""
GROUP_OF_ONE = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""
WITHOUT_PLACE = """
import torch
from ringtune.torch_backend.registration import register
del torch.distributed.distributed_c10d._new_process_group_helper
register()
"""


def python(program: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environ})


@pytest.mark.parametrize(
    ("given", "served"),
    [
        ("gloo", "ringtune"),
        ("GLOO", "ringtune"),
        ("undefined", "ringtune"),
        ("cpu:gloo", "ringtune"),
        ("cpu:gloo,cuda:gloo", "ringtune"),
        ("cuda:nccl,cpu:gloo", "cpu:ringtune,cuda:nccl"),
        ("nccl", None),
        ("cuda:gloo", None),
        ("cpu:fake,cuda:gloo", None),
        ("ringtune", None),
    ],
)
def test_tensors_of_the_cpu_change_their_backend(
    monkeypatch: pytest.MonkeyPatch, given: str, served: str | None
) -> None:
    """Every spelling in which Gloo would serve the CPU; other devices keep theirs. This torch knows no GPUs."""
    monkeypatch.setattr(backends.cuda, "is_built", lambda: False)

    assert served == served_backend(distributed_c10d, given)


def test_tensors_of_a_gpu_stay_with_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo alone serves both devices; where torch knows GPUs, theirs stay there."""
    monkeypatch.setattr(backends.cuda, "is_built", lambda: True)

    assert "cpu:ringtune,cuda:gloo" == served_backend(distributed_c10d, "gloo")


def test_the_import_of_torch_stays_light() -> None:
    """Torch's function is replaced only on demand; even then settings, meeting and engine are not loaded."""
    light = ("errors", "version", "torch_backend")

    plain, substituted = python(LOOK, *light), python(LOOK, *light, **{SUBSTITUTE_NAME: "gloo"})

    assert "distributed_c10d.py\n[]\n" == plain.stdout, plain.stderr
    assert "gloo_substitution.py\n[]\n" == substituted.stdout, substituted.stderr


def test_an_unknown_value_is_an_error_of_the_first_group() -> None:
    """The import of torch goes on, and the first process group names the allowed values."""
    imported = python("import torch", **{SUBSTITUTE_NAME: "glo"})
    grouped = python(GROUP_OF_ONE, **{SUBSTITUTE_NAME: "glo"})

    assert (0, "") == (imported.returncode, imported.stderr)
    assert "RINGTUNE_TORCH_BACKEND='glo' is not allowed; allowed: gloo" in grouped.stderr


def test_a_torch_without_the_place_says_so() -> None:
    """A line says that the backend will not serve, if it was asked for."""
    plain, substituted = python(WITHOUT_PLACE), python(WITHOUT_PLACE, **{SUBSTITUTE_NAME: "gloo"})

    assert (0, "") == (plain.returncode, plain.stderr)
    assert 0 == substituted.returncode
    assert "RINGTUNE_TORCH_BACKEND=gloo has no effect with this torch" in substituted.stderr


def test_launcher_and_registration_mean_one_variable() -> None:
    """The registration has the name once more, for it may not load the settings."""
    assert TORCH_BACKEND_NAME == SUBSTITUTE_NAME
