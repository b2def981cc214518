# SPDX-License-Identifier: Apache-2.0
"""Changing the reducer of a DDP model, in one process: torch's fake process group answers every collective."""

import sys
import weakref
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import distributed as dist
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ringtune.ddp.buckets import MIB, BucketSizes
from ringtune.ddp.model import DdpModel
from ringtune.ddp.reduced_parameters import ReducedParameters
from ringtune.ddp.reducers import Rebuild, bucket_sizes, find_objection
from ringtune.ddp.tuning import autotune
from ringtune.errors import ConfigError

SIZES = BucketSizes(700, 300)


@pytest.fixture(autouse=True)
def fake_world() -> Iterator[None]:
    """Pretend to be the first of two ranks."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def keep_local(_: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Stand in for the reduction, which a fake group does not have: a communication hook that returns its input."""
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def trainable(**options: Any) -> Any:
    """Return a model that can be trained here."""
    model = wrapped(**options)
    model.register_comm_hook(None, keep_local)
    return model


def wrapped(**options: Any) -> Any:
    """Return a model of three layers under DDP."""
    return DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3))), **options)


def step(model: Any) -> None:
    """Run a forward and a backward pass."""
    model(torch.ones(1, 8)).sum().backward()


def rebuild(model: Any) -> Rebuild:
    """Return a new reducer with other buckets."""
    return Rebuild(model, ReducedParameters.of(model), SIZES)


def test_a_list_of_bucket_sizes_is_scaled_and_comes_back() -> None:
    """A model with `bucket_cap_mb_list` is cut by sizes in its proportions, and by its own list under its own sizes."""
    model = trainable(bucket_cap_mb_list=[0.0001, 0.0003, 0.0006])
    step(model)
    as_wrapped, caps = bucket_sizes(model), model._bucket_config.per_bucket_bytes_caps

    for sizes, rebuilt in ((BucketSizes(2 * caps[2], caps[0]), "288, 576"), (as_wrapped, "288, 320, 256")):
        Rebuild(model, ReducedParameters.of(model), sizes).commit()
        for _ in range(3):
            step(model)
        assert sizes == bucket_sizes(model)
        assert rebuilt == model._get_ddp_logging_data()["rebuilt_bucket_sizes"]

    assert find_objection(model, accept_hook=True) is None
    assert caps == model._bucket_config.per_bucket_bytes_caps


def test_a_commit_brings_the_new_buckets() -> None:
    """Cut by size from the second step on, with the communication hook that was there; the old reducer is gone."""
    model = trainable()
    step(model)
    old = weakref.ref(model.reducer)

    rebuild(model).commit()
    for _ in range(3):
        step(model)

    assert SIZES == bucket_sizes(model)
    assert old() is None
    data = model._get_ddp_logging_data()
    assert "320, 544" == data["rebuilt_bucket_sizes"]
    assert keep_local.__qualname__ == data["comm_hook"]


def test_a_discard_leaves_everything_as_it_was() -> None:
    """A discard leaves the gradients as they were, and training goes on with the old reducer."""
    model = trainable(gradient_as_bucket_view=True, static_graph=True)
    for _ in range(3):
        step(model)
    before = {name: value for name, value in vars(model).items() if "bucket" in name or name in ("reducer", "logger")}
    gradients = [parameter.grad.clone() for parameter in model.parameters()]

    rebuild(model).discard()

    assert before == {name: vars(model)[name] for name in before}
    pairs = zip(gradients, model.parameters(), strict=True)
    assert all(torch.equal(gradient, parameter.grad) for gradient, parameter in pairs)
    step(model)


def test_a_build_that_fails_leaves_everything_as_it_was() -> None:
    """The job goes on with its buckets if memory for others is lacking."""
    model = trainable()
    step(model)
    reducer, sizes = model.reducer, bucket_sizes(model)

    with (
        patch.object(DistributedDataParallel, "_ddp_init_helper", side_effect=RuntimeError("out of memory")),
        pytest.raises(RuntimeError, match="out of memory"),
    ):
        rebuild(model)

    assert (reducer, sizes) == (model.reducer, bucket_sizes(model))
    step(model)


def test_what_is_reduced_was_trained_when_the_model_was_wrapped() -> None:
    """Freezing, unfreezing or replacing layers later keeps the reduced tensors as they were; so do other buckets."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    layers[0].weight.requires_grad_(False)
    expected = [layers[0].bias, *layers[1].parameters(), *layers[2].parameters()]
    model = DistributedDataParallel(layers)

    layers.requires_grad_(False)
    layers[0].requires_grad_(True)
    rebuild(model).commit()
    reduced = ReducedParameters.of(model)

    assert list(map(id, expected)) == list(map(id, reduced.parameters))
    assert {
        ("float32", (4, 4)): 1,
        ("float32", (4,)): 2,
        ("float32", (2, 4)): 1,
        ("float32", (2,)): 1,
    } == reduced.counts()
    assert 4 * (4 + 20 + 10) == reduced.total_bytes()
    assert [True, True, False, False, False, False] == [parameter.requires_grad for parameter in layers.parameters()]
    layers[1] = torch.nn.Linear(4, 4)
    moved = [expected[0], *expected[3:], *expected[1:3]]
    assert list(map(id, moved)) == list(map(id, ReducedParameters.of(model).parameters))


def test_sparse_layers_are_frozen_after_autotune_alone() -> None:
    """Before its first backward pass a reducer does not tell about sparse layers: those frozen by then are refused."""
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(8, 8, sparse=True), torch.nn.Linear(8, 8)))
    reduced = ReducedParameters.of(model)
    model.module[1].requires_grad_(False)

    objection = DdpModel(model).objection()

    assert [True, False, False] == reduced.are_sparse
    assert objection is not None
    assert "frozen or unfrozen between" in objection
    assert "call autotune() right after DistributedDataParallel()" in objection


def test_an_ordinary_model_has_no_objection() -> None:
    """An ordinary model has no objection, with the options on its gradients either."""
    for options in ({}, {"static_graph": True}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": True}):
        assert find_objection(wrapped(**options), accept_hook=False) is None


def test_a_hook_with_a_state_needs_the_users_word() -> None:
    """A hook's state may be one per bucket; a process group is none."""
    model, plain = wrapped(), wrapped()
    model.register_comm_hook(object(), lambda state, bucket: bucket)
    plain.register_comm_hook(dist.group.WORLD, lambda state, bucket: bucket)

    objection = find_objection(model, accept_hook=False)

    assert objection is not None
    assert "accept_hook=True" in objection
    assert find_objection(model, accept_hook=True) is None
    assert find_objection(plain, accept_hook=False) is None


def test_another_version_of_torch_is_named() -> None:
    """A version of torch with another inside of DDP is named, and its buckets are left alone."""
    model = wrapped()
    del model._comm_hooks

    objection = find_objection(model, accept_hook=False)

    assert objection is not None
    assert f"PyTorch {torch.__version__} has no _comm_hooks" in objection


class OlderDdp(DistributedDataParallel):
    """DDP as before `_bucket_config`: how it makes a reducer out of `bucket_bytes_cap` and the module's constant."""

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        """Wrap a module, and remove the attributes that an older version lacks."""
        super().__init__(module, **options)
        del self._bucket_config, self.bucket_bytes_cap_list

    def _ddp_init_helper(self, parameters: Any, expects_sparse: Any, names: Any, static_graph: Any) -> None:
        inside: Any = dist
        is_default = self.bucket_bytes_cap_default
        first = inside._DEFAULT_FIRST_BUCKET_BYTES if is_default else self.bucket_bytes_cap
        if static_graph or not self.find_unused_parameters:
            limits = [sys.maxsize]
        else:
            limits = [first, self.bucket_bytes_cap] if is_default else [self.bucket_bytes_cap]
        indices, sizes = inside._compute_bucket_assignment_by_size(parameters, limits, expects_sparse)
        self.reducer = inside.Reducer(
            parameters,
            list(reversed(indices)),
            list(reversed(sizes)),
            self.process_group,
            expects_sparse,
            self.bucket_bytes_cap,
            self.find_unused_parameters,
            self.gradient_as_bucket_view,
            names,
            first,
        )
        self.logger = inside.Logger(self.reducer)
        self.reducer.set_logger(self.logger)
        self.logger.set_construction_data_and_log("model", [], -1, self.broadcast_buffers, False, static_graph)


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}])
def test_an_older_ddp_gets_other_buckets_too(options: dict[str, Any]) -> None:
    """The first bucket's size goes through the constant, which gets its old value back, and is remembered."""
    constant = dist._DEFAULT_FIRST_BUCKET_BYTES  # type: ignore[attr-defined]
    model: Any = OlderDdp(torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3))), **options)
    model.register_comm_hook(None, keep_local)
    before = bucket_sizes(model)
    step(model)

    rebuild(model).commit()
    for _ in range(4):  # a static graph is cut anew one step later
        step(model)

    assert find_objection(model, accept_hook=False) is None
    assert BucketSizes(25 * MIB, MIB) == before
    assert SIZES == bucket_sizes(model)
    assert "320, 544" == model._get_ddp_logging_data()["rebuilt_bucket_sizes"]
    assert constant == dist._DEFAULT_FIRST_BUCKET_BYTES  # type: ignore[attr-defined]


def test_an_older_ddp_gets_its_buckets_back() -> None:
    """No trace of the attempt is left on the model."""
    model: Any = OlderDdp(torch.nn.Linear(8, 8))
    names = set(vars(model))
    before = bucket_sizes(model)

    rebuild(model).discard()

    assert (names, before) == (set(vars(model)), bucket_sizes(model))


def test_a_model_that_is_not_wrapped_is_a_config_error() -> None:
    """The text says how to wrap it."""
    with pytest.raises(ConfigError, match="got a Linear; wrap it in DistributedDataParallel"):
        autotune(torch.nn.Linear(2, 2))  # type: ignore[arg-type]


def test_an_argument_has_the_range_of_its_variable() -> None:
    """A malformed value is found before training."""
    with pytest.raises(ConfigError, match="AUTOTUNE_MAX_SAMPLES='0' is not allowed"):
        autotune(wrapped(), max_samples=0)
    with pytest.raises(ConfigError, match="AUTOTUNE_MAX_STEPS='0' is not allowed"):
        autotune(wrapped(), max_steps=0)
    with pytest.raises(ConfigError, match="AUTOTUNE_MAX_SECONDS='0.5' is not allowed"):
        autotune(wrapped(), max_seconds=0.5)
