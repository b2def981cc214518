# SPDX-License-Identifier: Apache-2.0
"""Times training with ringtune against DistributedDataParallel over Gloo, in pairs of blocks that take turns.

Speed here is Gloo's time over ringtune's; above 1 ringtune is faster. The interval is Student's, of 95 %, over the
pairs' logarithms.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from scipy import stats
from torch.distributed import FileStore  # type: ignore[attr-defined]  # exported without being named
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from tests.gpu.checks import Bench, checks_of, main

PAIRS = 10

Step = Callable[[], None]


class Block(torch.nn.Module):
    """A block of GPT-2: attention and two layers, each behind a normalization."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.taken, self.given = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the next hidden state, of shape (rows, tokens, width)."""
        rows, tokens, width = hidden.shape
        parts = self.taken(self.before(hidden)).view(rows, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.given(seen.transpose(1, 2).reshape(rows, tokens, width))
        result: torch.Tensor = hidden + self.narrow(functional.gelu(self.wide(self.after(hidden))))
        return result


class LanguageModel(torch.nn.Module):
    """A model of GPT-2's shape: 148 gradients; with the defaults 124 million parameters."""

    def __init__(self, width: int = 768, blocks: int = 12, words: int = 50257, tokens: int = 1024) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(tokens, width)
        self.blocks = torch.nn.Sequential(*(Block(width, width // 64) for _ in range(blocks)))
        self.last = torch.nn.LayerNorm(width)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of predicting each next word; `words` are of shape (rows, tokens)."""
        hidden = self.words(words) + self.places.weight[: words.shape[1]]
        scores = self.last(self.blocks(hidden)) @ self.words.weight.t()
        return functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten())


def language_model(bench: Bench) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return the model in bf16 and a batch; a small one where there is no GPU."""
    torch.manual_seed(1)
    model = LanguageModel() if bench.is_gpu else LanguageModel(width=64, blocks=2, words=500)
    words = torch.randint(0, 500, (4, 128), device=bench.device)
    return model.to(bench.device, torch.bfloat16), words


def many_small(bench: Bench) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return a model of 200 gradients of a few bytes, and a batch: the cost per tensor dominates."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 8) for _ in range(100)]
    return torch.nn.Sequential(*layers).to(bench.device), torch.randn(4, 8, device=bench.device)


Make = Callable[[Bench], tuple[torch.nn.Module, torch.Tensor]]


def training_step(model: Any, optimizer: Any, batch: torch.Tensor) -> Step:
    """Return one step of training."""

    def step() -> None:
        optimizer.zero_grad()
        model(batch).float().mean().backward()
        optimizer.step()

    return step


def contestants(bench: Bench, make: Make) -> tuple[dict[str, Step], int]:
    """Return a step of each contestant, each with a model of its own, and the number of gradients."""
    steps: dict[str, Step] = {}
    count = 0
    for name in ("plain", "ddp", "ringtune"):
        model, batch = make(bench)
        count = len(list(model.parameters()))
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
        trained: Any = model
        if name == "ddp":
            trained = DistributedDataParallel(model)
        if name == "ringtune":
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        steps[name] = training_step(trained, optimizer, batch)
    return steps, count


def seconds_of(bench: Bench, step: Step, count: int) -> float:
    """Return the seconds that a step takes, all of the device's work included."""
    bench.finish()
    hvd.barrier()
    begin_s = time.perf_counter()
    for _ in range(count):
        step()
    bench.finish()
    return (time.perf_counter() - begin_s) / count


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and the ends of its interval of 95 %."""
    mean = statistics.mean(values)
    margin = float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - margin, mean + margin


def timed_pairs(bench: Bench, steps: dict[str, Step], block: int) -> dict[str, list[float]]:
    """Return the seconds per step in each block; the contestants take turns, in another order each time."""
    for step in steps.values():
        for _ in range(3):
            step()
    names, times = list(steps), {name: list[float]() for name in steps}
    for number in range(PAIRS):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            times[name].append(seconds_of(bench, steps[name], block))
    return times


def join_gloo(bench: Bench, name: str) -> None:
    """Join a process group of torch's, for DDP."""
    store = FileStore(str(bench.folder / f"{name}.store"), hvd.size())
    torch.distributed.init_process_group("gloo", store=store, rank=hvd.rank(), world_size=hvd.size())


def check_language_model(bench: Bench) -> dict[str, Any]:
    """The step time of a model like GPT-2 small in bf16, against DDP over Gloo with CUDA tensors."""
    join_gloo(bench, f"language_model.{hvd.size()}")
    steps, count = contestants(bench, language_model)
    times = timed_pairs(bench, steps, 2)
    torch.distributed.destroy_process_group()
    logs = [math.log(theirs / ours) for theirs, ours in zip(times["ddp"], times["ringtune"], strict=True)]
    mean, low, high = map(math.exp, interval(logs))
    medians = {f"{name} ms": round(1e3 * statistics.median(times[name]), 2) for name in times}
    return {
        "gradients": count,
        **medians,
        "speed over Gloo": round(mean, 3),
        "from": round(low, 3),
        "to": round(high, 3),
        "is_below": high < 1.0,
    }


def check_cost_per_tensor(bench: Bench) -> dict[str, Any]:
    """Measure the time that a tiny gradient adds to a step, against DDP; each is negotiated and staged alone."""
    join_gloo(bench, f"per_tensor.{hvd.size()}")
    steps, count = contestants(bench, many_small)
    times = timed_pairs(bench, steps, 10)
    torch.distributed.destroy_process_group()
    figures: dict[str, Any] = {"gradients": count}
    for name in ("ddp", "ringtune"):
        added = [1e6 * (own - plain) / count for own, plain in zip(times[name], times["plain"], strict=True)]
        mean, low, high = interval(added)
        figures |= {f"{name} us": round(mean, 2), f"{name} from": round(low, 2), f"{name} to": round(high, 2)}
    figures["is_below"] = figures["ringtune from"] > figures["ddp to"]
    return figures


if __name__ == "__main__":
    main(checks_of(globals()))
