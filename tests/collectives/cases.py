# SPDX-License-Identifier: Apache-2.0
"""Cases that every front end must pass, on every rank, against what one process computes."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ringtune.errors import ConfigError, MismatchError
from tests.collectives import gradient_cases
from tests.collectives.front_end import FrontEnd
from tests.collectives.oracle import FLOATS, Array, ops_of, parts_of, reduced, values_of
from tests.integration.plain_rank import expect_error

Values = list[Array]


def bound(front: FrontEnd) -> dict[str, Callable[[], None]]:
    """Return the cases of a front end by the names of their functions, for `run_cases`."""
    members = {**globals(), **vars(gradient_cases)}
    cases = {name: case for name, case in members.items() if name.startswith("case_")}
    return {
        name: partial(case, front) for name, case in cases.items() if name.removeprefix("case_") not in front.left_out
    }


def brought_by(front: FrontEnd, dtype: str, shape: Sequence[int], salt: int = 0) -> Values:
    """Return every rank's values."""
    return [values_of(rank, dtype, shape, salt) for rank in range(front.size)]


def own_of(front: FrontEnd, brought: Values, dtype: str) -> Any:
    """Return this rank's tensor."""
    return front.tensor(brought[front.place], dtype)


def case_allreduce(front: FrontEnd) -> None:
    """Every operation, dtype and shape; the input stays as it is, or gets the result in place."""
    for salt, shape in enumerate(front.shapes):
        for dtype in front.reduced:
            brought = brought_by(front, dtype, shape, salt)
            own = own_of(front, brought, dtype)
            for op in front.ops_of(dtype):
                expected, about = reduced(op, brought, dtype), (op, dtype, shape)
                front.check(expected, dtype, front.call("allreduce", own, op=op), about)
                if hasattr(front.hvd, "allreduce_"):
                    target = own_of(front, brought, dtype)
                    assert front.call("allreduce_", target, op=op) is target
                    front.check(expected, dtype, target, (*about, "in place"))
            front.check(brought[front.place], dtype, own, (dtype, shape, "unchanged"))


def case_scales(front: FrontEnd) -> None:
    """The result is postscale * op(prescale * x), of integers truncated; integers wrap."""
    scaled = partial(front.call, "allreduce")
    for dtype in filter(FLOATS.__contains__, front.reduced):
        brought = [4 * values for values in brought_by(front, dtype, (33,), 1)]
        for op in front.ops_of(dtype):
            expected = 2 * reduced(op, [0.25 * values for values in brought], dtype)
            got = scaled(own_of(front, brought, dtype), op=op, prescale_factor=0.25, postscale_factor=2.0)
            front.check(expected, dtype, got, (op, dtype))
    for dtype, values, halved in (("int32", [7, -7, 1], [3, -3, 0]), ("int64", [9, -1, 2], [4, 0, 1])):
        if dtype in front.reduced:
            got = scaled(front.tensor(np.array(values), dtype), op="Sum", prescale_factor=0.5)
            front.check(np.array(halved) * front.size, dtype, got, "integers")
    if "int8" in front.reduced:
        big = np.array([100, -100])
        got = scaled(front.tensor(big, "int8"), op="Sum")
        front.check((big * front.size).astype(np.int8).astype(np.int64), "int8", got, "wraps")


def case_adasum(front: FrontEnd) -> None:
    """Orthogonal vectors are added, parallel ones averaged."""
    for dtype in filter(FLOATS.__contains__, front.reduced):
        own = np.zeros(front.size * 3)
        own[3 * front.place : 3 * front.place + 3] = front.place + 1
        expected = np.repeat(np.arange(1.0, front.size + 1), 3)
        front.check(expected, dtype, front.call("allreduce", front.tensor(own, dtype), op="Adasum"), "orthogonal")
        same = np.full(5, 3.0)
        front.check(same, dtype, front.call("allreduce", front.tensor(same, dtype), op="Adasum"), "parallel")
    assert_same_bits(front, "Adasum")


def case_exactness(front: FrontEnd) -> None:
    """64-bit integers keep every bit, and rounded floats have the same bits on all ranks."""
    if "int64" in front.reduced:
        big = np.array([2**62 - 1, -(2**62), 2**53 + 1]) // front.size
        front.check(big * front.size, "int64", front.call("allreduce", front.tensor(big, "int64"), op="Sum"), "exact")
    assert_same_bits(front, "Average")


def assert_same_bits(front: FrontEnd, op: str) -> None:
    """Require that an operation gives all ranks the same bits where results are rounded."""
    noise = np.random.default_rng(front.place).standard_normal(100_003)
    _, result = front.read(front.call("allreduce", front.tensor(noise, "float32"), op=op))
    _, rows = front.read(front.call("allgather", front.tensor(result[None], "float32")))
    assert (rows == rows[0]).all(), op


def case_grouped(front: FrontEnd) -> None:
    """Groups of mixed dtypes, in place and not."""
    for op in ("Average", "Sum", "Max"):
        dtypes = [dtype for dtype in front.reduced if op in ops_of(dtype)]
        brought = [brought_by(front, dtype, (number + 3, 2), number) for number, dtype in enumerate(dtypes)]
        for function in ("grouped_allreduce", "grouped_allreduce_"):
            if hasattr(front.hvd, function):
                own = [own_of(front, values, dtype) for values, dtype in zip(brought, dtypes, strict=True)]
                results = front.call(function, own, op=op)
                for dtype, values, got, mine in zip(dtypes, brought, results, own, strict=True):
                    assert (got is mine) == function.endswith("_")
                    front.check(reduced(op, values, dtype), dtype, got, (function, op))
    assert [] == list(front.call("grouped_allreduce", []))


def case_allgather(front: FrontEnd) -> None:
    """Ragged rows, none at all, several tensors at once, also dtypes that are only moved; a number is one row."""
    for dtype in (*front.reduced, *front.moved):
        for row in ((3,), (2, 0)) if front.is_brief else ((), (3,), (2, 0), (2, 2)):
            counts = [(5 * rank + 2) % 4 if front.has_ragged else 2 for rank in range(front.size)]
            brought = [values_of(rank, dtype, (count, *row), 3) for rank, count in enumerate(counts)]
            own, joined = own_of(front, brought, dtype), np.concatenate(brought)
            front.check(joined, dtype, front.call("allgather", own), (dtype, row))
            twice = [np.concatenate([values, values]) for values in brought]
            doubled, same = front.call("grouped_allgather", [own_of(front, twice, dtype), own])
            front.check(np.concatenate(twice), dtype, doubled, (dtype, row, "grouped"))
            front.check(joined, dtype, same, (dtype, row, "grouped"))
    front.check(np.zeros((0, 2)), "float32", front.call("allgather", front.tensor(np.zeros((0, 2)), "float32")), "none")
    if front.has_rows:
        got = front.call("allgather", front.tensor(np.array(front.place), "int64"))
        front.check(np.arange(front.size), "int64", got, "numbers")


def case_broadcast(front: FrontEnd) -> None:
    """Every dtype, also those that are only moved, from every root; in place, and not."""
    for dtype in (*front.reduced, *front.moved):
        for root, rank in enumerate(front.ranks):
            for shape in ((), (0, 2)) if front.is_brief else ((), (0, 2), (5, 2)):
                brought = brought_by(front, dtype, shape, 7)
                own, about = own_of(front, brought, dtype), (dtype, root, shape)
                front.check(brought[root], dtype, front.call("broadcast", own, rank), about)
                front.check(brought[front.place], dtype, own, (*about, "unchanged"))
                if hasattr(front.hvd, "allreduce_"):
                    assert front.call("broadcast_", own, rank) is own
                    front.check(brought[root], dtype, own, (*about, "in place"))


def case_reducescatter(front: FrontEnd) -> None:
    """Even and uneven rows, fewer rows than ranks, every operation and dtype, groups; the first ranks get more."""
    for rows in (2 * front.size + 1, *(() if front.is_brief else (0, 1, front.size, 7))):
        for dtype in front.reduced:
            brought = brought_by(front, dtype, (rows, 3), rows)
            own = own_of(front, brought, dtype)
            for op in front.ops_of(dtype):
                expected = np.array_split(reduced(op, brought, dtype), front.size)[front.place]
                front.check(expected, dtype, front.call("reducescatter", own, op=op), (op, dtype, rows))
        dtypes = front.reduced[:2]
        own = [own_of(front, brought_by(front, dtype, (rows, 3), rows), dtype) for dtype in dtypes]
        for dtype, got in zip(dtypes, front.call("grouped_reducescatter", own, op="Sum"), strict=True):
            expected = reduced("Sum", brought_by(front, dtype, (rows, 3), rows), dtype)
            front.check(np.array_split(expected, front.size)[front.place], dtype, got, (rows, "grouped"))


def case_alltoall(front: FrontEnd) -> None:
    """Equal parts, and splits that differ between ranks, of every dtype, also those that are only moved."""
    size = front.size
    equal = [[2] * size] * size
    uneven = [[(source + target) % 3 if front.has_ragged else 2 for target in range(size)] for source in range(size)]
    for dtype in (*front.reduced, *front.moved):
        for given, splits in ((None, equal), (uneven[front.place], uneven)):
            brought = [values_of(rank, dtype, (sum(to), 3), 5) for rank, to in enumerate(splits)]
            parts = parts_of(splits, brought, front.place)
            rows, counts = front.alltoall(own_of(front, brought, dtype), given)
            front.check(np.concatenate(parts), dtype, rows, (dtype, given))
            assert counts in (None, [len(part) for part in parts]), (dtype, counts)


def case_mixed(front: FrontEnd) -> None:
    """Many operations of all kinds and dtypes in flight, submitted and waited for in another order on every rank."""
    expected: dict[str, tuple[Array, str]] = {}
    starts: dict[str, Callable[[], Any]] = {}
    for number in range(120):
        draw = random.Random(number)
        dtype, op = draw.choice([name for name in front.reduced if name != "bool"]), draw.choice(ops_of("int8"))
        brought = brought_by(front, dtype, (draw.randint(0, 40), draw.randint(1, 9)), number)
        name, kind = f"mixed.{number}", draw.choice(("allreduce_async", "allgather_async", "broadcast_async"))
        arguments = (front.ranks[number % front.size],) if kind == "broadcast_async" else ()
        options = {"op": op} if kind == "allreduce_async" else {}
        results: dict[str, Callable[[], Array]] = {
            "allreduce_async": partial(reduced, op, brought, dtype),
            "allgather_async": partial(np.concatenate, brought),
            "broadcast_async": partial(brought.__getitem__, number % front.size),
        }
        expected[name] = (results[kind](), dtype)
        starts[name] = partial(front.call, kind, own_of(front, brought, dtype), *arguments, name=name, **options)
    order = list(starts)
    random.Random(front.place).shuffle(order)
    handles = {name: starts[name]() for name in order}
    random.Random(front.place + 100).shuffle(order)
    for name in order:
        front.check(*expected[name], front.wait(handles[name]), name)
    expect_error(ConfigError, "handle", lambda: front.wait(handles[order[0]]))


def case_refusals(front: FrontEnd) -> None:
    """Wrong input is a typed error before anything is submitted, a mismatch one on every rank; the engine works on."""
    refused = partial(expect_error, ConfigError)
    ones = front.tensor(np.ones(2), "float32")
    refused("does not support bool", lambda: front.call("allreduce", front.tensor(np.ones(2), "bool"), op="Average"))
    refused("it supports float16", lambda: front.call("allreduce", front.tensor(np.ones(2), "int32"), op="Adasum"))
    refused("one dimension", lambda: front.call("reducescatter", front.tensor(np.array(1.0), "float32")))
    refused("rank 99", lambda: front.call("broadcast", ones, 99))
    refused("splits", lambda: front.alltoall(ones, [1] * front.size + [9]))
    if "complex64" in front.moved:
        for function in ("allreduce", "reducescatter"):
            call = partial(front.call, function, front.tensor(np.ones(2), "complex64"))
            expect_error(TypeError, f"{function} does not support complex64", call)
    if front.size > 1:
        odd = front.tensor(np.zeros(1 + front.place), "float32")
        expect_error(MismatchError, "odd", lambda: front.call("allreduce", odd, name="odd"))
    front.check(np.full(2, front.size), "float32", front.call("allreduce", ones, op="Sum"), "afterwards")
