# SPDX-License-Identifier: Apache-2.0
"""What keeps buffers alive, and names for operations without one."""

import gc
import weakref

from ringtune.gradient_set import GradientSet
from ringtune.handles import HandleTable, Pending


class Buffer:
    """Stands for a tensor."""


def test_buffers_live_until_their_handle_is_forgotten() -> None:
    """An operation's buffers outlive all other references to them."""
    table, buffer = HandleTable(), Buffer()
    alive = weakref.ref(buffer)
    table.add(5, Pending((buffer,), lambda: None))

    del buffer
    gc.collect()
    is_alive_while_pending = alive() is not None
    table.forget(5)
    gc.collect()

    assert is_alive_while_pending
    assert alive() is None
    assert table.get(5) is None


def test_automatic_names_count_per_operation() -> None:
    """The n-th nameless operation of a kind has one name on every rank; a given name is kept."""
    table = HandleTable()

    names = [table.name_for(*call) for call in (("allreduce", None), ("broadcast", None), ("allreduce", None))]

    assert ["allreduce.noname.1", "broadcast.noname.1", "allreduce.noname.2"] == names
    assert "allreduce.loss" == table.name_for("allreduce", "loss")


def test_the_gradient_set_counts_each_name_once() -> None:
    """A gradient that is submitted every step is one gradient of the model."""
    gradients = GradientSet()
    for _ in range(3):
        gradients.add("weight", "torch.float32", (2, 3))
        gradients.add("other", "torch.float32", (2, 3))

    assert {("float32", (2, 3)): 2} == dict(gradients.counts())
