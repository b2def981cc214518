# SPDX-License-Identifier: Apache-2.0
"""Sampler that shares a dataset out among the ranks, and shares the rest of an epoch out anew in each world."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.utils.data

from ringtune.errors import ConfigError
from ringtune.session.session import SESSION

Mask = npt.NDArray[np.bool_]


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Divides the unprocessed indices of an epoch evenly among the ranks of the world.

    Give it to a `TorchState` and call `record_batch` after each batch. At each commit the ranks tell each other how far
    they are; so a rank that is lost takes no record with it, and an epoch visits each sample once, however often the
    world changes. Samples of steps that a loss undoes are visited again. The last batch of an epoch is filled up with
    samples of the same epoch, so that all ranks have equally many.

    Attributes:
        dataset: Dataset whose length counts.
        shuffle: Whether the order of an epoch is random.
        seed: Seed of the order.
        epoch: Epoch of the order.
        num_replicas: Number of ranks.
        rank: This process.
        remaining_indices: Indices that were not processed when the world began, in the order of the epoch.
        indices: Those of this rank.
        num_samples: Number of indices of this rank.
        total_size: Number of indices of all ranks, with those that fill up.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:  # noqa: FBT002  (Horovod's)
        """Begin with the first epoch. Call `init()` before.

        Args:
            dataset: Dataset of a constant length.
            shuffle: Whether the order of an epoch is random.
            seed: Seed of the order, the same on all ranks.
        """
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.num_replicas, self.rank = 1, 0
        self._recorded = 0  # indices at the begin of `indices` that were processed
        self._others: list[int] = []  # indices that were processed since the last commit, but not in order
        self._told = [0]  # `_recorded` of each rank at the last commit
        self._processed: Mask = np.zeros(len(dataset), np.bool_)
        self.reset()

    @property
    def processed_indices(self) -> set[int]:
        """Indices of this epoch that were processed: by this rank, and by all ranks at the last commit."""
        return set(np.flatnonzero(self._processed).tolist())

    @property
    def processed_num(self) -> int:
        """Number of `processed_indices`; those that fill up the last batch count once."""
        return int(self._processed.sum())

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, with all indices unprocessed and in another order.

        An epoch that is under way goes on: the same number again is ignored until all indices are processed, so that a
        training function may call it first and be called again after a reset.

        Args:
            epoch: Number of the epoch.
        """
        was_restored_complete = not self.remaining_indices
        if epoch == self.epoch and (was_restored_complete or not self._processed.all()):
            return
        self.epoch = epoch
        self._processed = np.zeros(len(self.dataset), np.bool_)
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Take note that this rank has processed a batch.

        Args:
            batch_idx: Number of the batch since the iteration began, from 0.
            batch_size: Number of samples in each batch.
        """
        begin, end = batch_idx * batch_size, min((batch_idx + 1) * batch_size, len(self.indices))
        self._processed[self.indices[begin:end]] = True
        if begin <= self._recorded:
            self._recorded = max(self._recorded, end)
        else:
            self._others += self.indices[begin:end]

    def record_indices(self, indices: Iterable[int]) -> None:
        """Take note that this rank has processed some indices.

        Args:
            indices: Indices of the dataset.
        """
        chosen = [int(index) for index in indices]
        self._processed[chosen] = True
        self._others += chosen

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """Return the indices of a batch of this rank; arguments as for `record_batch`."""
        return self.indices[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    def reset(self) -> None:
        """Share the unprocessed indices out among the ranks of the world that there is."""
        if SESSION.is_initialized:
            world = SESSION.require()
            self.num_replicas, self.rank = world.size, world.rank
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)  # noqa: S311  (no secret)
        self.remaining_indices = [index for index in order if not self._processed[index]]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.indices = self._indices_of(self.rank)
        self._recorded, self._others, self._told = 0, [], [0] * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the processed indices and, under Horovod's name, their number, as plain data."""
        indices = np.flatnonzero(self._processed).tolist()
        return {"epoch": self.epoch, "processed_indices": indices, "processed_num": len(indices)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where a `state_dict` was taken.

        Args:
            state_dict: Result of `state_dict`, also of Horovod's sampler, which has `processed_num` alone: the first
                ones in the order of the epoch.

        Raises:
            ConfigError: If an index is not one of the dataset's.
        """
        epoch = int(state_dict["epoch"])
        processed = np.zeros(len(self.dataset), np.bool_)
        if "processed_indices" in state_dict:
            chosen = np.fromiter(state_dict["processed_indices"], np.int64)
            if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(processed):
                raise ConfigError(
                    f"the sampler's state has the index {chosen.max()}, and its dataset has {len(processed)} samples; "
                    "load it with the dataset that it was made with"
                )
            processed[chosen] = True
        self.take(epoch, processed)
        if "processed_indices" not in state_dict:
            processed[self.remaining_indices[: int(state_dict["processed_num"])]] = True
            self.take(epoch, processed)

    def mask(self) -> Mask:
        """Return for each index of the dataset whether it was processed; the sampler's own memory."""
        return self._processed

    def take(self, epoch: int, processed: Mask) -> None:
        """Go on in an epoch, and share its rest out anew.

        Args:
            epoch: Number of the epoch.
            processed: For each index of the dataset, whether it was processed.
        """
        self.check_length(len(processed))
        self.epoch, self._processed = epoch, processed
        self.reset()

    def check_length(self, count: int) -> None:
        """Raise `ConfigError` if a state is of a dataset of another length."""
        if count != len(self.dataset):
            raise ConfigError(
                f"the sampler's dataset has {len(self.dataset)} samples here and {count} where the state comes from; "
                "all ranks need the same dataset"
            )

    def progress(self) -> tuple[int, int, int]:
        """Return how far this rank is: the epoch, its recorded indices in order, the number of others since then."""
        return self.epoch, self._recorded, len(self._others)

    def take_others(self) -> list[int]:
        """Return the indices that were recorded out of order since the last call, and forget which these are."""
        others, self._others = self._others, []
        return others

    def heed(self, progress: Sequence[Sequence[int]], others: Iterable[int]) -> None:
        """Take note of how far all ranks are.

        Args:
            progress: Result of `progress` of each rank.
            others: Indices that ranks have recorded out of order.
        """
        self._processed[list(others)] = True
        for rank, (epoch, recorded, _) in enumerate(progress):
            if epoch == self.epoch and recorded > self._told[rank]:
                if rank != self.rank:
                    self._processed[self._indices_of(rank)[self._told[rank] : recorded]] = True
                self._told[rank] = recorded

    def _indices_of(self, rank: int) -> list[int]:
        """Return a rank's share; the first remaining indices fill it up, again and again if they are few."""
        count = len(self.remaining_indices)
        return [self.remaining_indices[place % count] for place in range(rank, self.total_size, self.num_replicas)]

    def __iter__(self) -> Iterator[int]:
        """Iterate over this rank's indices."""
        return iter(self.indices)

    def __len__(self) -> int:
        """Return the number of this rank's indices."""
        return self.num_samples
