# SPDX-License-Identifier: Apache-2.0
"""Learn to read handwritten digits in a job that goes on when workers are lost or come.

    ringtune run -np 3 --min-np 1 --max-np 4 python examples/elastic_digits.py

Kill a worker while it trains: the others go on from the last commit. Under any other launcher, and alone, the script
trains with the ranks that there are.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ringtune.torch as hvd
from digits import Digits, residual_mlp

WIDTH, DEPTH, BATCH_SIZE = 64, 4, 16
LEARNING_RATE = 0.02  # rate of one rank; the global batch grows with the ranks, and so does the rate
STEPS_PER_COMMIT = 10  # a loss costs as many steps at most


@hvd.elastic.run
def train(state: hvd.elastic.TorchState, digits: Digits, epochs: int) -> None:
    """Train from where the state says; called again after each change of the world."""
    loader = DataLoader(TensorDataset(digits.images, digits.labels), BATCH_SIZE, sampler=state.sampler)
    while state.epoch < epochs:
        state.model.train()
        for number, (images, labels) in enumerate(loader):
            state.optimizer.zero_grad()
            nn.functional.cross_entropy(state.model(images), labels).backward()
            state.optimizer.step()
            state.sampler.record_batch(number, BATCH_SIZE)
            state.step += 1
            if state.step % STEPS_PER_COMMIT == 0:
                state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
        if hvd.rank() == 0:
            accuracy = digits.accuracy(state.model)
            print(f"epoch {state.epoch}: {hvd.size()} ranks, accuracy {accuracy:.3f}", flush=True)


def main() -> None:
    """Train on this worker."""
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits, elastically.")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data")
    epochs = parser.parse_args().epochs
    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    digits = Digits.load()
    model = residual_mlp(WIDTH, DEPTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(digits.labels)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, step=0)
    state.register_resize_policy(hvd.elastic.scale_learning_rate)
    train(state, digits, epochs)


if __name__ == "__main__":
    main()
