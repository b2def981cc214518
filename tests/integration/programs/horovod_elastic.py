# SPDX-License-Identifier: Apache-2.0
"""A program with the calls of Horovod's elastic examples for PyTorch: written for it, and changed in its import alone.

Prints its weights' digest and the sizes of the worlds that it trained in. Argument: a folder for the file `steps`, to
which rank 0 adds a byte for each step.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812  (as examples have it)
from torch import nn, optim

import ringtune.torch as hvd

EPOCHS, BATCH, RATE, COMMIT_EVERY = 3, 4, 0.01, 2
steps = Path(sys.argv[1]) / "steps"

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)
images = torch.randn(160, 1, 28, 28)
train_dataset = torch.utils.data.TensorDataset(images, images.mean(dim=(1, 2, 3)).gt(0).long())
train_sampler = hvd.elastic.ElasticSampler(train_dataset)
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=BATCH, sampler=train_sampler)


class Net(nn.Module):
    """A small convolution net with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the probabilities."""
        x = F.relu(F.max_pool2d(self.conv1(inputs), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = F.relu(self.fc1(x.view(-1, 320)))
        return F.log_softmax(self.fc2(F.dropout(x, training=self.training)), dim=1)


model = Net()
plain_optimizer = optim.SGD(model.parameters(), lr=RATE * hvd.size(), momentum=0.5)
optimizer = hvd.DistributedOptimizer(
    plain_optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.none, op=hvd.Average
)


def metric_average(value: float, name: str) -> float:
    """Return the mean over the ranks."""
    return float(hvd.allreduce(torch.tensor(value), name=name).item())


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    """Train from the epoch and the batch of the state."""
    while state.epoch < EPOCHS:
        state.model.train()
        batch_offset = state.batch
        for batch_idx, (data, target) in enumerate(train_loader):
            state.batch = batch_offset + batch_idx
            if state.batch % COMMIT_EVERY == 0:
                state.commit()
            else:
                state.check_host_updates()
            state.optimizer.zero_grad()
            loss = F.nll_loss(state.model(data), target)
            loss.backward()
            state.optimizer.step()
            state.train_sampler.record_batch(batch_idx, BATCH)
            state.sizes.append(hvd.size())
            if hvd.rank() == 0:
                with steps.open("ab") as counted:
                    counted.write(b".")
        state.epoch += 1
        state.batch = 0
        state.train_sampler.set_epoch(state.epoch)
        state.commit()


def on_state_reset() -> None:
    """Scale the learning rate with the number of ranks."""
    for param_group in optimizer.param_groups:
        param_group["lr"] = RATE * hvd.size()


state = hvd.elastic.TorchState(model, optimizer, train_sampler=train_sampler, epoch=0, batch=0, sizes=[])
state.register_reset_callbacks([on_state_reset])
train(state)
mean = metric_average(float(hvd.size()), "avg_size")
text = "".join(f"{parameter.detach().numpy().tobytes().hex()}" for parameter in model.parameters())
digest = hashlib.sha256(text.encode()).hexdigest()
rate = optimizer.param_groups[0]["lr"]
line = json.dumps({"digest": digest, "sizes": state.sizes, "mean": mean, "rate": rate, "batch": state.batch})
print(line, flush=True)  # noqa: T201  (as examples do)
