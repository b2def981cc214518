# SPDX-License-Identifier: Apache-2.0
"""Shares of an epoch, and the rest of it in another world."""

from dataclasses import dataclass

import pytest

from ringtune.errors import ConfigError
from ringtune.torch.elastic import ElasticSampler
from ringtune.torch.elastic import sampler as sampler_module


@dataclass
class Place:
    """A place in a world, in the role of the session."""

    rank: int
    size: int
    is_initialized: bool = True

    def require(self) -> "Place":
        """Return the world."""
        return self


def at(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    """Put this process at a place in a world."""
    monkeypatch.setattr(sampler_module, "SESSION", Place(rank, size))


def shares(monkeypatch: pytest.MonkeyPatch, size: int, count: int, **options: bool) -> list[ElasticSampler]:
    """Return the samplers of all ranks."""
    samplers = []
    for rank in range(size):
        at(monkeypatch, rank, size)
        samplers.append(ElasticSampler(range(count), **options))
    return samplers


@pytest.mark.parametrize(("count", "size"), [(12, 3), (10, 4), (1, 4), (0, 2), (7, 1)])
def test_ranks_have_equally_many_and_together_all(monkeypatch: pytest.MonkeyPatch, count: int, size: int) -> None:
    """Shares are equally long, also where there are fewer samples than ranks, and no sample is missing."""
    samplers = shares(monkeypatch, size, count)

    assert {-(-count // size)} == {len(list(sampler)) for sampler in samplers}
    assert set(range(count)) == {index for sampler in samplers for index in sampler}


def test_the_rest_of_an_epoch_is_shared_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded batches are out of the next world's shares, those of a lost rank included."""
    samplers = shares(monkeypatch, 3, 30)
    done = [index for sampler in samplers for index in sampler.get_indices(0, 4)]
    for sampler in samplers:
        sampler.record_batch(0, 4)
    progress = [sampler.progress() for sampler in samplers]
    survivor = samplers[1]
    survivor.heed(progress, [])

    at(monkeypatch, 0, 2)
    survivor.reset()

    assert set(done) == survivor.processed_indices
    assert set(range(30)) - set(done) == set(survivor.remaining_indices)
    assert (9, 18) == (survivor.num_samples, survivor.total_size)


def test_records_out_of_order_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch after a gap, and single indices, are counted as others, once."""
    (sampler,) = shares(monkeypatch, 1, 10, shuffle=False)

    sampler.record_batch(1, 2)
    sampler.record_indices([7])

    assert (0, 0, 3) == sampler.progress()
    assert {2, 3, 7} == sampler.processed_indices
    assert 3 == sampler.processed_num == sampler.state_dict()["processed_num"]
    assert [2, 3, 7] == sampler.take_others()
    assert [] == sampler.take_others()


def test_an_epoch_has_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another epoch begins with all indices, in another order; the same seed and epoch give the same order."""
    (sampler,) = shares(monkeypatch, 1, 20)
    (twin,) = shares(monkeypatch, 1, 20)
    first = list(sampler)
    sampler.record_batch(0, 8)

    sampler.set_epoch(1)

    assert sorted(first) == sorted(sampler)
    assert first != list(sampler)
    assert first == list(twin)
    assert set() == sampler.processed_indices


def test_setting_the_epoch_under_way_keeps_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training function that sets the epoch first goes on within it after a reset, also at its very end."""
    (sampler,) = shares(monkeypatch, 1, 10)
    sampler.record_batch(0, 4)
    sampler.reset()
    sampler.set_epoch(0)
    assert 6 == len(sampler)

    sampler.record_batch(0, 6)
    sampler.reset()
    sampler.set_epoch(0)

    assert 0 == len(sampler)


def test_a_complete_epoch_begins_again_if_it_was_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that numbers all epochs alike sees every sample each time."""
    (sampler,) = shares(monkeypatch, 1, 10)
    sampler.record_batch(0, 10)

    sampler.set_epoch(0)

    assert 10 == len(sampler)


def test_a_state_dict_is_loaded_as_this_class_and_horovod_write_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processed indices come back as a list, as a set, or as a number of the epoch's first ones."""
    (sampler,) = shares(monkeypatch, 1, 10, shuffle=False)
    sampler.record_batch(0, 3)
    (other,) = shares(monkeypatch, 1, 10, shuffle=False)

    other.load_state_dict(sampler.state_dict())
    assert {0, 1, 2} == other.processed_indices
    other.load_state_dict({"epoch": 2, "processed_indices": {4, 5}})
    assert (2, {4, 5}) == (other.epoch, other.processed_indices)
    other.load_state_dict({"epoch": 0, "processed_num": 4})
    assert {0, 1, 2, 3} == other.processed_indices
    with pytest.raises(ConfigError, match="has the index 10, and its dataset has 10 samples"):
        other.load_state_dict({"epoch": 0, "processed_indices": [10]})
