# SPDX-License-Identifier: Apache-2.0
"""A front end as the shared cases see it; an adapter derives from it and makes and reads tensors."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.collectives.oracle import REDUCED, Array, assert_equal, ops_of

SHAPES = ((), (0,), (1,), (7,), (3, 5), (2, 0, 3), (1031,), (2, 3, 4, 5))


def as_it_is(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call unchanged: it is not compiled."""
    return call


class FrontEnd:
    """A module with Horovod's functions, over one process set, and the tensors that it takes.

    Attributes:
        hvd: The module.
        reduced: Names of the dtypes that it reduces.
        moved: Names of those that it only moves.
        shapes: Shapes that allreduces are checked with.
        has_rows: Whether a tensor without a dimension counts as one row.
        has_ragged: Whether ranks may bring different numbers of rows.
        has_horovods_gradients: Whether gradients of gathers are averages, as in Horovod; else they are the transpose.
        left_out: Names of cases that make no sense for it.
        process_set: The ranks that take part; None for all.
    """

    hvd: Any
    reduced: tuple[str, ...] = REDUCED
    moved: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = SHAPES
    has_rows = True
    has_ragged = True
    has_horovods_gradients = True
    left_out: frozenset[str] = frozenset()

    def __init__(
        self,
        process_set: Any = None,
        compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = as_it_is,
        *,
        is_brief: bool = False,
    ) -> None:
        """See the attributes.

        Args:
            process_set: See the attributes.
            compiled: Compiles a function.
            is_brief: Whether a few dtypes, shapes and operations are enough: others are checked elsewhere.
        """
        self.process_set = process_set
        self._compiled = compiled
        self.is_brief = is_brief
        if is_brief:
            self.reduced = tuple(dtype for dtype in ("float32", "bfloat16", "int64", "bool") if dtype in self.reduced)
            self.moved, self.shapes = self.moved[:1], ((), (0,), (3, 5))

    @property
    def size(self) -> int:
        """Number of ranks that take part."""
        return int(self.hvd.size() if self.process_set is None else self.process_set.size())

    @property
    def place(self) -> int:
        """Place of this rank among them."""
        return int(self.hvd.rank() if self.process_set is None else self.process_set.rank())

    @property
    def ranks(self) -> Sequence[int]:
        """Their ranks in the whole job."""
        return range(self.size) if self.process_set is None else list(self.process_set.ranks)

    def ops_of(self, dtype: str) -> list[str]:
        """Return the names of the operations that are checked with a dtype."""
        return ops_of(dtype) if dtype == "float32" or not self.is_brief else ["Sum"]

    def tensor(self, values: Array, dtype: str) -> Any:
        """Return a tensor of a dtype with these values."""
        raise NotImplementedError

    def read(self, tensor: Any) -> tuple[str, Array]:
        """Return the name of a tensor's dtype, and its values as float64 or int64."""
        raise NotImplementedError

    def call(self, function: str, *arguments: Any, op: str | None = None, **options: Any) -> Any:
        """Call a function of the front end; the first argument, a tensor or a list of tensors, may be traced."""
        if op is not None:
            options["op"] = getattr(self.hvd, op)
        if self.process_set is not None:
            options["process_set"] = self.process_set
        tensors, *others = arguments
        return self._compiled(lambda traced: getattr(self.hvd, function)(traced, *others, **options))(tensors)

    def alltoall(self, tensor: Any, splits: Sequence[int] | None = None) -> tuple[Any, list[int] | None]:
        """Return the received rows and, with splits, how many came from each rank."""
        if splits is None:
            return self.call("alltoall", tensor), None
        rows, counts = self.call("alltoall", tensor, splits)
        return rows, [int(count) for count in counts]

    def wait(self, handle: Any) -> Any:
        """Return the tensor that an asynchronous call gives."""
        return self.hvd.synchronize(handle)

    def gradient(self, call: Callable[[Any], Any], tensor: Any, upstream: Any) -> Any:
        """Return the gradient by the tensor that a call takes, where `upstream` is that by its result."""
        raise NotImplementedError

    def check(self, expected: Array, dtype: str, got: Any, about: object) -> None:
        """Require a tensor of the front end with the expected values; see `assert_equal`."""
        assert_equal(expected, dtype, self.read(got), about)
