# SPDX-License-Identifier: Apache-2.0
"""Gain of `ringtune tune --target deepspeed` on a job on CPUs, by paired launches after the tuning.

The tuner searches with a small budget. Then the user's command and the winner's script are launched in turns, which of
the two first alternating; the gain has an interval at 90 % (Student's t of the log ratios). The tuner's own adoption
test decides earlier and is not counted. Started with a Python that has DeepSpeed: `make setup-platforms`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ringtune.tuner.statistics.paired_test import Pair, speedup_interval
from ringtune.tuning.command.results import STEP_REPORT_RESULTS, relative_difference
from ringtune.tuning.command.scores import STEP_LINE, LineScore

TRAINING = Path(__file__).parent / "ranks" / "deepspeed_training.py"
RANKS = 2
WIDTH = 512  # inputs of each of eight layers: 2.1 million parameters
LAUNCH_LIMIT_S = 300.0
ATTEMPTS = 3


def main() -> None:
    """Tune, then measure the pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", type=int, default=2, help="ZeRO stage, 1 to 3")
    parser.add_argument("--reduce-bucket-size", type=int, help="bucket of the user's file; default: DeepSpeed's, 5e8")
    parser.add_argument("--pairs", type=int, default=10, help="paired launches after the tuning")
    parser.add_argument("--max-samples", type=int, default=6, help="configs that the tuner tries")
    parser.add_argument("--steps", type=int, default=40, help="steps of a launch")
    parser.add_argument("--port", type=int, default=29_871, help="port of torchrun on this host")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = user_command(folder, options)
        begin_s = time.monotonic()
        winner = tuned(folder, command, options.max_samples)
        print(f"tuned in {time.monotonic() - begin_s:.0f} s", flush=True)
        if winner is None:
            print("the default is kept: there is nothing to compare")
            return
        report(measured(command, [str(winner)], options.pairs))


def user_command(folder: Path, options: argparse.Namespace) -> list[str]:
    """Return the command that a user would tune, with its config file in a folder."""
    bucket = {} if options.reduce_bucket_size is None else {"reduce_bucket_size": options.reduce_bucket_size}
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": options.stage, **bucket},
    }
    path = folder / "ds_config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    job = ["--width", str(WIDTH), "--steps", str(options.steps)]
    program = [str(TRAINING), *job, "--deepspeed_config", str(path)]
    return [*launcher, "--master-port", str(options.port), *program]


def tuned(folder: Path, command: Sequence[str], samples: int) -> Path | None:
    """Return the script of the tuner's winner, None where the default is kept."""
    tune = [sys.executable, "-m", "ringtune", "tune", "--target", "deepspeed", "--output", str(folder / "out")]
    subprocess.run([*tune, "--max-samples", str(samples), "--pairs", "3", "--", *command], check=True, env=environ())
    script = folder / "out" / "command.sh"
    return script if script.exists() else None


def environ() -> dict[str, str]:
    """Return the environment of every launch: DeepSpeed on CPUs, one thread per rank."""
    return {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}


def measured(user: Sequence[str], winner: Sequence[str], pairs: int) -> list[Pair]:
    """Launch both in turns; return the median step times of each pair."""
    found = []
    for number in range(pairs):
        order = (user, winner) if number % 2 == 0 else (winner, user)
        times = {tuple(command): launched(command) for command in order}
        (user_ms, user_loss), (winner_ms, winner_loss) = times[tuple(user)], times[tuple(winner)]
        found.append(Pair(user_ms, winner_ms))
        difference = relative_difference(user_loss, winner_loss)
        print(f"pair {number + 1}: {user_ms:.2f} ms, {winner_ms:.2f} ms; losses differ by {difference:.1g}", flush=True)
    return found


def launched(command: Sequence[str]) -> tuple[float, float]:
    """Launch a command; return its median step time, milliseconds, and its loss.

    A rank of DeepSpeed aborts now and then as it exits, a thread of Gloo still running: such a launch is repeated.
    """
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(
            command, check=False, env=environ(), stdout=subprocess.PIPE, text=True, timeout=LAUNCH_LIMIT_S
        )
        if not done.returncode:
            break
        print(f"a launch failed with exit code {done.returncode}, attempt {attempt} of {ATTEMPTS}", flush=True)
    done.check_returncode()
    score = LineScore.of(STEP_LINE, higher_is_better=False)
    lines = done.stdout.splitlines()
    (loss,) = [result for line in lines for result in STEP_REPORT_RESULTS.results_in(line)]
    return median(step_ms for line in lines for step_ms in score.times_ms(line)), loss


def report(pairs: Sequence[Pair]) -> None:
    """Print the speed-up with its interval."""
    gain = speedup_interval(pairs)
    text = f"{100 * gain.speedup:+.1f} % ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
    print(f"speed-up over the user's file by {len(pairs)} paired launches: {text}")


if __name__ == "__main__":
    main()
