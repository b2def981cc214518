# SPDX-License-Identifier: Apache-2.0
"""Tuning of a live PyTorch model on its own process group: all that `ringtune.ddp` and `ringtune.fsdp` share.

The way of one sample, in order of the files:

1. `live_model`: the protocol of a model whose settings can be switched between two steps.
2. `call`: brings the ranks together (`introductions`, over `control`), and starts the tuner on rank 0.
3. `follower`: counts steps on every rank, hands their ends over (`step_clock`, `exchange`), and joins the rounds
   (`rounds`, `turns`), by which all ranks switch after the same step.
4. `target`: turns the ends into windows for `ringtune.tuner`; `job` is the `TuningJob` around it.
"""
