# SPDX-License-Identifier: Apache-2.0
"""A training with DeepSpeed on CPUs: prints the sizes in force, the time of each step, and the last loss.

Started by `torchrun` with `--deepspeed_config FILE`: `benchmarks.tuner.deepspeed_gain` and the tests of DeepSpeed do.
"""

import argparse
import os

import deepspeed
import torch

from ringtune.launch_tuning import StepReport


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", "0")))
    parser.add_argument("--steps", type=int, default=8, help="steps, the first two are not printed")
    parser.add_argument("--width", type=int, default=256, help="inputs and outputs of each layer")
    parser.add_argument("--layers", type=int, default=8, help="number of layers")
    train(deepspeed.add_config_arguments(parser).parse_args())


def train(options: argparse.Namespace) -> None:
    """Train a perceptron on random numbers, the same in every launch."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # compiled at this moment otherwise, for minutes
    deepspeed.init_distributed(dist_backend="gloo")
    rank = torch.distributed.get_rank()
    model = torch.nn.Sequential(
        *(
            part
            for _ in range(options.layers)
            for part in (torch.nn.Linear(options.width, options.width), torch.nn.Tanh())
        )
    )
    engine, *_ = deepspeed.initialize(args=options, model=model, model_parameters=model.parameters())
    report = StepReport(rank, skip=2)
    if rank == 0:
        sizes = f"stage={engine.zero_optimization_stage()} reduce_bucket_size={engine.optimizer.reduce_bucket_size}"
        print(f"in force: {sizes}")
    generator = torch.Generator().manual_seed(rank)
    loss = torch.zeros(())
    for _ in range(options.steps):
        batch = torch.randn(4, options.width, generator=generator)
        with report.step():
            loss = engine(batch).square().mean()
            engine.backward(loss)
            engine.step()
    torch.distributed.all_reduce(loss)
    report.result(loss.item())
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
