# SPDX-License-Identifier: Apache-2.0
"""Data that goes through a file comes back as it was: types, shapes, and every bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ringtune.errors import ConfigError
from ringtune.run_function.packing import read_data, write_data


def there_and_back(folder: Path, value: Any) -> Any:
    """Return the object that is read back from the written one."""
    write_data(folder / "data", value)
    return read_data(folder / "data")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3).T,
        np.zeros((0, 3)),
        np.array(1.5, np.float16),
        np.array([True, False]),
    ],
    ids=["strided", "empty", "no dimension", "bool"],
)
def test_arrays_come_back_and_can_be_written_to(array: Any, tmp_path: Path) -> None:
    """Arrays of any strides come back writable."""
    back = there_and_back(tmp_path, [array, "after"])

    np.testing.assert_array_equal(array, back[0])
    assert (array.dtype, array.shape, "after") == (back[0].dtype, back[0].shape, back[1])
    back[0][...] = 0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T,
        torch.zeros(0, 3),
        torch.tensor(2.5, dtype=torch.float64),
        torch.ones(2, requires_grad=True) * 2,
        torch.tensor([1 + 2j]).conj(),
    ],
    ids=["strided", "empty", "no dimension", "in a graph", "conjugated"],
)
def test_tensors_come_back(tensor: torch.Tensor, tmp_path: Path) -> None:
    """In any dtype, outside of any graph."""
    (back,) = there_and_back(tmp_path, [tensor])

    assert (tensor.dtype, tensor.shape, False) == (back.dtype, back.shape, back.requires_grad)
    assert torch.equal(tensor.detach(), back)


def test_a_numpy_scalar_stays_one(tmp_path: Path) -> None:
    """A numpy scalar, such as a loss that numpy summed, stays one."""
    back = there_and_back(tmp_path, np.float32(0.1))

    assert (np.float32, np.float32(0.1)) == (type(back), back)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "builtins.object cannot be sent"),
        (np.array([object()]), "an array of object cannot be sent"),
        (np.zeros(1, [("x", "i4")]), "arrays of numbers can"),
        (torch.zeros(2).to_sparse(), "sparse"),
        (torch.zeros(2, device="meta"), "CPU memory"),
    ],
    ids=["object", "array of objects", "structured", "sparse", "elsewhere"],
)
def test_what_cannot_be_sent_is_an_error_and_leaves_no_file(value: Any, words: str, tmp_path: Path) -> None:
    """The error names the type; a reader never sees half of the file."""
    with pytest.raises(ConfigError, match=words):
        write_data(tmp_path / "data", [1, value])

    assert [] == list(tmp_path.iterdir())
