# SPDX-License-Identifier: Apache-2.0
"""The benchmark of a training step: ways that take turns in one job do not touch each other's weights.

Torch is imported late: every process that collects the tests would import it. Each run of the benchmark says itself
whether the weights are equal.
"""

import pytest

JOB = "convolutional"


def plain_digest(ranks: tuple[int, ...], steps: int) -> str:
    """Train in this process alone, with the mean of the ranks' gradients, and return the digest of the weights."""
    from benchmarks.engine.training_step.jobs import JOBS
    from benchmarks.engine.training_step.trainees import weights_digest

    job = JOBS[JOB]
    model = job.model()
    optimizer = job.make_optimizer(model.parameters())
    batches = [job.batches(rank) for rank in ranks]
    for step in range(steps):
        optimizer.zero_grad()
        for own in batches:
            inputs, targets = own[step % len(own)]
            (job.loss(model(inputs), targets) / len(ranks)).backward()
        optimizer.step()
    return weights_digest(model)


@pytest.mark.long
def test_each_way_ends_with_the_weights_of_a_plain_run() -> None:
    """Hooks, buckets or optimizer state of another way would change them."""
    import torch

    from benchmarks.engine.training_step.__main__ import measured
    from benchmarks.engine.training_step.ways import WAYS

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = measured(JOB, ranks=2, seconds=0.3)
        alone = [plain_digest((rank,), found["trained"]) for rank in (0, 1)]
        together = plain_digest((0, 1), found["trained"])
    finally:
        torch.set_num_threads(threads)

    assert [{"floor": own, "in step": own, "ddp": together, "ringtune": together} for own in alone] == found["weights"]
    assert found["is_equal"]
    assert all(sorted(blocks) == sorted(WAYS) for blocks in found["rounds"])
