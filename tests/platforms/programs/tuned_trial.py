# SPDX-License-Identifier: Apache-2.0
"""A short training job with a learning rate, as a trial of a study; prints its loss and its tuner's progress.

Takes a learning rate and the seconds to train, 1 unless given. If the job has its turn at tuning, it trains until two
configs of the search were measured, however long that takes, and says so; a job that waits for its turn ends on time,
and so does one whose turn comes in its last moment.
"""

import sys
import time

import torch

import ringtune.callbacks
import ringtune.torch as hvd
from ringtune.tuner import Phase, Progress

STEPS_BETWEEN_LOOKS = 10
ENOUGH_CONFIGS = 2


class Watch(ringtune.callbacks.Callback):
    """Notes the tuner's measurements.

    Attributes:
        has_turn: Whether it measures.
        searched: Configs of the search that were measured.
    """

    def __init__(self) -> None:
        """Begin before the first news."""
        self.has_turn = False
        self.searched = 0

    def progress(self, progress: Progress, moment: ringtune.callbacks.Moment) -> None:
        """Take the news."""
        del moment
        self.has_turn = True
        self.searched = progress.sample if progress.phase is Phase.SEARCH else self.searched
        if progress.phase in {Phase.ADOPTION, Phase.WATCH}:
            self.searched = ENOUGH_CONFIGS


def train(rate: float, seconds: float, watch: Watch) -> float:
    """Train until the job may end; return the loss."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    distributed = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    features, end_s, step = torch.randn(16, 64), time.monotonic() + seconds, 0
    while True:
        distributed.zero_grad()
        loss = (model(features) - features).square().mean()
        loss.backward()
        distributed.step()
        step += 1
        if step % STEPS_BETWEEN_LOOKS == 0:
            is_rank_zero_done = time.monotonic() > end_s and (not watch.has_turn or watch.searched >= ENOUGH_CONFIGS)
            is_done = torch.tensor([float(is_rank_zero_done and hvd.rank() == 0)])
            if hvd.allreduce(is_done, op=hvd.Max, name="is_done").item():
                return float(loss.detach())


def main() -> None:
    """Run the job."""
    watch = Watch()
    ringtune.callbacks.add(watch)
    hvd.init()
    loss = train(float(sys.argv[1]), float((*sys.argv[2:], "1")[0]), watch)
    hvd.shutdown()
    if watch.searched >= ENOUGH_CONFIGS:
        sys.stdout.write(f"searched {watch.searched}\n")
    sys.stdout.write(f"loss={loss:.6f}\n")


if __name__ == "__main__":
    main()
