# SPDX-License-Identifier: Apache-2.0
"""Learn to read handwritten digits, and log the training and the tuner's work to one run of MLflow.

MLflow's store is a SQLite file here; `--tracking-uri` names another one, such as a server:

    AUTOTUNE=1 ringtune run -np 2 python examples/mlflow_logging.py --train-for-tuner
    mlflow ui --backend-store-uri sqlite:///mlflow.db

It needs `pip install mlflow-skinny sqlalchemy alembic`; the pages of `mlflow ui` come with `pip install mlflow`.
"""

import argparse
import contextlib
from collections.abc import Iterator

import mlflow
import torch
from torch import nn

import ringtune.callbacks
import ringtune.torch as hvd
from digits import BATCH_SIZE, Digits, residual_mlp
from training import Batch, Report, Training, add_common_arguments, budget_of, publish

EXPERIMENT = "digits"
WIDTH, DEPTH = 128, 12


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Log the training and the tuner's work to MLflow.")
    add_common_arguments(parser, batch_size=BATCH_SIZE, epochs=10, learning_rate=0.05)
    parser.add_argument("--tracking-uri", default="sqlite:///mlflow.db", help="MLflow's store")
    return parser.parse_args()


@contextlib.contextmanager
def tracked(arguments: argparse.Namespace) -> Iterator[None]:
    """Have a run of MLflow on rank 0, and the tuner's work in it."""
    if hvd.rank() != 0:
        yield
        return
    mlflow.set_tracking_uri(arguments.tracking_uri)
    mlflow.set_experiment(EXPERIMENT)
    with mlflow.start_run():
        mlflow.log_params({"batch_size": arguments.batch_size, "learning_rate": arguments.learning_rate})
        ringtune.callbacks.add(ringtune.callbacks.MlflowCallback())  # logs to the run that is active here
        yield


def train(arguments: argparse.Namespace) -> Report:
    """Train on this rank; return the job's report."""
    digits = Digits.load()
    model = residual_mlp(WIDTH, DEPTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=0.9)
    training = Training(model, optimizer, nn.functional.cross_entropy)
    training.synchronize_start()

    def batches_of(epoch: int) -> Iterator[Batch]:
        if hvd.rank() == 0:
            mlflow.log_metric("accuracy", digits.accuracy(model), step=training.steps)
            model.train()
        return digits.batches(arguments.seed, epoch, arguments.batch_size)

    training.run(batches_of, budget_of(arguments))
    return training.report("digits, logged", arguments.seed, {"accuracy": digits.accuracy(model)})


def main() -> None:
    """Train on this rank; rank 0 logs and reports."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    hvd.init()
    with tracked(arguments):
        report = train(arguments)
        if hvd.rank() == 0:
            mlflow.log_metric("accuracy", report.metrics["accuracy"], step=report.steps)
            publish(report, arguments.report)
        hvd.shutdown()  # the tuner's last words go to the run while it is open


if __name__ == "__main__":
    main()
