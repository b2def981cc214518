# SPDX-License-Identifier: Apache-2.0
"""What of a tensor the engine sees."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtune.errors import ConfigError
from ringtune.torch.buffers import (
    ENGINE_DTYPES,
    buffer_of,
    check_tensor,
    check_writable,
    dtype_number,
    rows_of,
)


def test_dtype_numbers_are_the_bindings() -> None:
    """The numbers are positions in the binding's documented list."""
    names = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool")

    assert list(range(9)) == [dtype_number(getattr(torch, name)) for name in names]


def test_a_contiguous_tensor_is_used_as_it_is() -> None:
    """Nothing is copied, and the shape is the tensor's."""
    tensor = torch.zeros(2, 3)

    buffer = buffer_of(tensor)

    assert (tensor.data_ptr(), (2, 3), False) == (buffer.memory.data_ptr(), buffer.shape, buffer.is_copy)


@pytest.mark.parametrize(
    ("shape", "memory_format", "expected"),
    [
        ((2, 3, 4, 5), torch.channels_last, (1, 2, 4, 5, 3)),
        ((2, 3, 4, 5, 6), torch.channels_last_3d, (1, 2, 4, 5, 6, 3)),
    ],
)
def test_channels_last_is_used_as_it_is_under_a_shape_of_its_own(
    shape: tuple[int, ...], memory_format: torch.memory_format, expected: tuple[int, ...]
) -> None:
    """Memory in another order has another shape, so that ranks that differ in it do not mix elements up."""
    tensor = torch.zeros(shape).to(memory_format=memory_format)

    buffer = buffer_of(tensor)

    assert (tensor.data_ptr(), expected, False) == (buffer.memory.data_ptr(), buffer.shape, buffer.is_copy)
    assert len(shape) != len(buffer.shape)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_any_strides_keep_their_elements(shape: list[int], seed: int, data: st.DataObject) -> None:
    """Whatever the strides, the memory holds the elements in an order that the shape and format determine."""
    order = data.draw(st.permutations(range(len(shape))))
    step = data.draw(st.integers(1, 2))
    tensor = torch.rand(shape, generator=torch.Generator().manual_seed(seed)).permute(*order)[::step]

    buffer = buffer_of(tensor)

    assert torch.equal(tensor, buffer.memory)
    assert buffer.is_copy == (buffer.memory.data_ptr() != tensor.data_ptr())
    assert buffer.memory.is_contiguous() or len(buffer.shape) == tensor.dim() + 1


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        ([1.0], "list"),
        (torch.zeros(2).to_sparse(), "dense"),
        (torch.zeros(2, device="meta"), "CPU memory"),
        (torch.zeros(2, dtype=torch.complex64), "complex64"),
        (torch.zeros(2, dtype=torch.int16), "it supports uint8, int8, int32, int64, float16, bfloat16, float32"),
    ],
)
def test_what_the_engine_cannot_take_is_refused(tensor: object, word: str) -> None:
    """The error says what was given and what is supported."""
    with pytest.raises(ConfigError, match=word):
        check_tensor("allreduce", tensor)


@pytest.mark.parametrize("dtype", ENGINE_DTYPES)
def test_every_engine_dtype_is_taken(dtype: torch.dtype) -> None:
    """All nine dtypes go into the engine, under the numbers of the binding."""
    tensor = torch.zeros(2, dtype=dtype)

    taken = check_tensor("broadcast", tensor)

    assert tensor is taken
    assert dtype_number(dtype) == buffer_of(taken).operand().dtype


def test_rows_are_dense_whatever_the_strides() -> None:
    """What is cut into rows is laid out row after row, and a tensor without rows is refused."""
    tensor = torch.arange(12.0).reshape(3, 4).t()

    operand = rows_of("alltoall", tensor)

    assert (4, 3) == operand.shape
    assert torch.equal(tensor, operand.owner)
    assert operand.owner.is_contiguous()
    with pytest.raises(ConfigError, match="one dimension"):
        rows_of("alltoall", torch.tensor(1.0))


def test_negated_and_conjugated_views_are_refused() -> None:
    """A lazy view's memory does not hold its values."""
    view = torch.zeros(2, dtype=torch.complex64).conj().imag

    with pytest.raises(ConfigError):
        check_tensor("broadcast", view)


def test_a_result_needs_memory_of_its_own() -> None:
    """An expanded tensor cannot be written element by element."""
    check_writable("allreduce_", torch.zeros(1, 3))

    with pytest.raises(ConfigError, match="share memory"):
        check_writable("allreduce_", torch.zeros(1).expand(3))
