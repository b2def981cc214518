# SPDX-License-Identifier: Apache-2.0
"""The memory of a tensor as the engine sees it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtune import _engine
from ringtune.errors import ConfigError
from ringtune.torch.buffers import (
    ENGINE_DTYPES,
    MOVABLE_DTYPES,
    buffer_of,
    check_movable,
    check_tensor,
    check_writable,
    copy_into,
    copy_of,
    dtype_number,
    rows_of,
)


def test_dtype_numbers_are_the_engines() -> None:
    """The numbers are positions in the engine's list."""
    assert [_engine.DTYPES.index(name) for name in MOVABLE_DTYPES] == [
        dtype_number(dtype) for dtype in MOVABLE_DTYPES.values()
    ]


def test_every_dtype_that_torch_has_is_moved_except_quantized_ones() -> None:
    """A new torch may bring dtypes that the engine does not know yet: this test fails then."""
    of_torch = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}

    left_out = of_torch - set(MOVABLE_DTYPES.values())

    assert {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4} == left_out
    assert all(dtype.itemsize == torch.empty(1, dtype=dtype).nbytes for dtype in MOVABLE_DTYPES.values())


def test_a_contiguous_tensor_is_used_as_it_is() -> None:
    """The memory is not copied, and the shape is the tensor's."""
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
    """The memory holds the elements in an order that shape and format determine, for any strides."""
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
        (torch.empty(2, dtype=torch.float8_e5m2), "it supports uint8, int8, int32, int64, float16, bfloat16, float32"),
    ],
)
def test_what_the_engine_cannot_take_is_refused(tensor: object, word: str) -> None:
    """The error has the given kind and the supported ones."""
    with pytest.raises(ConfigError, match=word):
        check_tensor("allreduce", tensor)


@pytest.mark.parametrize("dtype", ENGINE_DTYPES)
def test_every_engine_dtype_is_taken(dtype: torch.dtype) -> None:
    """All dtypes that are reduced go into the engine, under the numbers of the binding."""
    tensor = torch.zeros(2, dtype=dtype)

    taken = check_tensor("allreduce", tensor)

    assert tensor is taken
    assert dtype_number(dtype) == buffer_of(taken).operand().dtype


def test_rows_are_dense_whatever_the_strides() -> None:
    """Rows lie one after the other for any strides, and a tensor without rows is refused."""
    tensor = torch.arange(12.0).reshape(3, 4).t()

    operand = rows_of("alltoall", tensor)

    assert (4, 3) == operand.shape
    assert torch.equal(tensor, operand.owner)
    assert operand.owner.is_contiguous()
    with pytest.raises(ConfigError, match="one dimension"):
        rows_of("alltoall", torch.tensor(1.0))


def test_negated_and_conjugated_views_are_copied() -> None:
    """A lazy view's memory does not hold its values, so that the engine gets other memory."""
    conjugated = torch.tensor([1 + 2j, 3 - 4j]).conj()
    negated = conjugated.imag

    for view in (conjugated, negated):
        buffer = buffer_of(check_movable("broadcast", view))

        assert buffer.is_copy
        assert not buffer.memory.is_conj()
        assert not buffer.memory.is_neg()
        assert torch.equal(view, buffer.memory)


@pytest.mark.parametrize("dtype", MOVABLE_DTYPES.values(), ids=str)
def test_every_movable_dtype_is_copied_bit_by_bit(dtype: torch.dtype) -> None:
    """Torch itself copies no integers that are smaller than a byte, nor tensors of them that have holes."""
    bits = torch.arange(16, dtype=torch.uint8) % 2
    tensor = bits.repeat(dtype.itemsize).view(dtype).reshape(4, 4).t()
    target = torch.zeros(16 * dtype.itemsize, dtype=torch.uint8).view(dtype).reshape(4, 4).t()

    buffer = buffer_of(check_movable("broadcast", tensor))
    copy_into(target, buffer.memory)

    assert buffer.is_copy
    assert buffer.memory.is_contiguous()
    assert torch.equal(bits_of(tensor), bits_of(target))
    assert torch.equal(bits_of(tensor), bits_of(copy_of(tensor)))


def test_quantized_tensors_are_refused() -> None:
    """A quantized tensor is more than its elements; the error names the remedy."""
    tensor = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)

    with pytest.raises(TypeError, match="call dequantize"):
        check_movable("broadcast", tensor)


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor whose elements torch may not be able to compare."""
    width = tensor.dtype.itemsize
    as_integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(width)
    return torch.view_as_real(tensor) if as_integers is None else tensor.view(as_integers)


def test_a_result_needs_memory_of_its_own() -> None:
    """An expanded tensor cannot be written element by element."""
    check_writable("allreduce_", torch.zeros(1, 3))

    with pytest.raises(ConfigError, match="share memory"):
        check_writable("allreduce_", torch.zeros(1).expand(3))
