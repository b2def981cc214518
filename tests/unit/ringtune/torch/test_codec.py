# SPDX-License-Identifier: Apache-2.0
"""Plain data with tensors and arrays through JSON and back; any plain data is tested beside `plain_data`."""

from typing import Any

import numpy as np
import pytest
import torch

from ringtune.errors import ConfigError
from ringtune.system.plain_data import Leaf
from ringtune.torch.codec import decode, empty_carrier, encode, leaf_of


def sent(value: Any) -> Any:
    """Return data as another rank gets it."""
    text, carriers = encode(value)

    def make_leaf(number: int, leaf: Leaf) -> Any:
        carrier = empty_carrier(leaf)
        assert carriers[number].shape == carrier.shape
        assert carriers[number].dtype == carrier.dtype
        return leaf_of(leaf, carrier.copy_(carriers[number]))

    return decode(text, make_leaf)


def test_tensors_travel_apart_in_order() -> None:
    """The text says dtype and shape of each tensor, which travels as it is."""
    first, second = torch.ones(2, 3), torch.ones(1, dtype=torch.int64)

    text, carriers = encode({"state": {0: first}, "steps": [second]})
    described = decode(text, lambda number, leaf: (number, leaf.dtype, leaf.shape))

    assert [first.data_ptr(), second.data_ptr()] == [carrier.data_ptr() for carrier in carriers]
    assert {"state": {0: (0, "float32", (2, 3))}, "steps": [(1, "int64", (1,))]} == described


@pytest.mark.parametrize(
    "number",
    [
        np.float64(0.1 + 0.2),
        np.float32(0.5),
        np.float16(2),
        np.int64(-(2**60)),
        np.uint8(7),
        np.bool_(True),
        np.complex64(1j),
    ],
    ids=lambda number: type(number).__name__,
)
def test_numbers_of_numpy_keep_type_and_value(number: Any) -> None:
    """A learning rate that was computed with numpy, a metric, a step count."""
    got = sent({"lr": number, number: "as a key"})

    assert {"lr": number, number: "as a key"} == got
    assert type(number) is type(got["lr"])


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.zeros((0, 2), np.int16),
        np.arange(4)[::2],
        np.array(3.0),
        np.arange(3, dtype=">i4"),
    ],
    ids=["plain", "empty", "with holes", "no dimension", "another byte order"],
)
def test_arrays_keep_shape_and_elements(array: np.ndarray[Any, Any]) -> None:
    """Arrays come back as arrays of their own."""
    got = sent([array])[0]

    assert array.shape == got.shape
    assert array.dtype.newbyteorder("=") == got.dtype
    assert np.array_equal(array, got)
    got[...] = 0  # it may be written


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int16, torch.uint16, torch.float8_e4m3fn], ids=str)
def test_tensors_of_dtypes_that_are_only_moved_travel(dtype: torch.dtype) -> None:
    """An optimizer's state may be of any dtype."""
    tensor = torch.ones(2, 2).to(dtype)

    got = sent({"moment": tensor})["moment"]

    assert dtype == got.dtype
    assert torch.equal(tensor.view(torch.uint8), got.view(torch.uint8))


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, 2).to_sparse(), torch.zeros(1, device="meta")],
    ids=["sparse", "without memory"],
)
def test_a_tensor_that_the_engine_cannot_read_is_refused(tensor: torch.Tensor) -> None:
    """The error names the kind of tensor."""
    with pytest.raises(ConfigError, match=f"{tensor.dtype} on {tensor.device} cannot be sent"):
        encode([tensor])


@pytest.mark.parametrize(
    "value",
    [np.array(["text"]), np.array([object()]), np.zeros(2, [("x", "f4")]), object()],
    ids=["texts", "objects", "records", "an object"],
)
def test_what_holds_no_numbers_is_refused(value: Any) -> None:
    """Only numbers travel in arrays."""
    with pytest.raises(ConfigError, match="cannot be sent to other ranks|does not know"):
        encode([value])


def test_an_unknown_dtype_is_an_error() -> None:
    """Text from a torch that knows more dtypes is an error of ours that names the dtype."""
    text, _ = encode(torch.zeros(1))

    with pytest.raises(ConfigError, match="this rank's torch does not know float5"):
        decode(text.replace(b"float32", b"float5"), lambda _, leaf: empty_carrier(leaf))
