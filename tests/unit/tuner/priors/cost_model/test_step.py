# SPDX-License-Identifier: Apache-2.0
"""Tests of the step in closed form: limits that physics sets, and that any legal config has a finite time."""

import math
from typing import Any

import numpy as np
import pytest

from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.priors.cost_model import EngineCosts, JobShape, LinkCosts, expected_step_s

MIB = 1024 * 1024
TENSORS = (512 * 1024,) * 200
ONE_HOST = JobShape(TENSORS, (2,))
FOUR_HOSTS = JobShape(TENSORS, (4, 4, 4, 4))
COSTS = EngineCosts()


def step_s(job: JobShape, costs: EngineCosts = COSTS, compute_s: float = 0.06, **knobs: Any) -> float:
    """Return the expected step time under the defaults, but for `knobs`."""
    return float(expected_step_s(job, costs, compute_s, [default_config().replace(knobs)])[0])


def test_a_step_takes_at_least_its_computing() -> None:
    """A step takes its computing time at least, whatever is hidden, and wherever."""
    for job in (ONE_HOST, FOUR_HOSTS):
        assert step_s(job) > 0.06


def test_without_fusion_every_tensor_pays_for_a_message() -> None:
    """A few large messages are far quicker than two hundred on a link of high latency."""
    slow = EngineCosts(call_s=1e-3)

    assert step_s(ONE_HOST, slow, fusion_bytes=0) > 0.06 + 200 * 1e-3 * 0.9
    assert step_s(ONE_HOST, slow, cycle_ms=10.0) < 0.1


def test_a_cycle_longer_than_backward_hides_nothing() -> None:
    """All is reduced after backward, at the cost of one batch; beyond that a longer cycle has no effect."""
    roomy = JobShape(TENSORS, (4, 4, 4, 4), is_crowded=False)
    whole = step_s(roomy, cycle_ms=50.0)

    assert whole == pytest.approx(step_s(roomy, cycle_ms=45.0))
    assert whole > step_s(roomy, cycle_ms=5.0)


def test_on_a_slow_link_the_wire_is_the_limit() -> None:
    """A step takes the wire time of a ring over four hosts, and little more."""
    slow = EngineCosts(link=LinkCosts(byte_s=80e-9))
    wire_s = 2 * 3 / 4 * sum(TENSORS) * 80e-9

    step = step_s(FOUR_HOSTS, slow, hierarchical_allreduce=True)

    assert wire_s < step < 1.1 * wire_s + 0.06


def test_reducing_inside_hosts_first_pays_where_the_link_is_slow() -> None:
    """16 ranks in one ring send more than 4 hosts, in five times as many steps."""
    assert step_s(FOUR_HOSTS, hierarchical_allreduce=True) < step_s(FOUR_HOSTS, hierarchical_allreduce=False)


def test_between_hosts_the_next_chunks_waits_hide_behind_the_wire() -> None:
    """Small chunks wait more often, but a block is on the wire meanwhile; chunks that fill the stages wait in turn."""
    link = EngineCosts(link=LinkCosts(latency_s=60e-6, byte_s=8e-9, message_s=0.0))
    small, usual, large = (
        step_s(FOUR_HOSTS, link, hierarchical_allreduce=True, chunk_bytes=kib * 1024) for kib in (256, 1024, 4096)
    )

    assert small < 1.001 * usual
    assert usual < large


def test_between_hosts_a_wait_longer_than_a_chunk_on_the_wire_is_paid_for() -> None:
    """The chunks on their way at once are one more than the rounds."""
    slow = EngineCosts(link=LinkCosts(latency_s=0.4e-3, byte_s=0.1e-9))
    chunks = sum(TENSORS) / (64 * 1024)

    step = step_s(FOUR_HOSTS, slow, hierarchical_allreduce=True, chunk_bytes=64 * 1024, cycle_ms=50.0)

    assert step > 0.05 + chunks * 2 / 3 * 0.4e-3


def test_between_distant_hosts_chunks_wait_as_often_as_all_in_flight_are_full() -> None:
    """At 10 ms 12.5 MB are in flight: 48 chunks of 256 KiB wait together, whatever their size."""
    far = EngineCosts(link=LinkCosts(latency_s=10e-3, byte_s=0.1e-9))
    fills = math.ceil(sum(TENSORS) / 12.5e6)

    steps = [
        step_s(FOUR_HOSTS, far, hierarchical_allreduce=True, chunk_bytes=kib * 1024, cycle_ms=50.0)
        for kib in (256, 4096)
    ]

    assert steps[0] < 0.15 + (fills + 1) * 2 * 10e-3
    assert steps[0] == pytest.approx(steps[1], rel=0.25)


def test_blocks_that_travel_whole_are_sent_to_every_host() -> None:
    """Up to 16 KiB of each of four ranks: twice the bytes. Two hosts exchange no more."""
    slow = EngineCosts(link=LinkCosts(byte_s=80e-9))
    jobs = (FOUR_HOSTS, JobShape(TENSORS, (4, 4)))
    whole, shared = (
        [step_s(job, slow, hierarchical_allreduce=True, chunk_bytes=kib * 1024) for job in jobs] for kib in (64, 128)
    )

    assert whole[0] == pytest.approx(2.0 * shared[0], rel=0.05)
    assert whole[1] == pytest.approx(shared[1], rel=0.05)


def test_ranks_of_a_host_share_its_memory() -> None:
    """Eight that move as many bytes at once take four times as long as two; here links are free."""
    quick = EngineCosts(link=LinkCosts(latency_s=0.0, byte_s=0.0, message_s=0.0, copied_byte_s=0.0))
    two, eight = (
        step_s(JobShape(TENSORS, (ranks,) * 4, is_crowded=False), quick, hierarchical_allreduce=True, cycle_ms=50.0)
        for ranks in (2, 8)
    )

    assert eight - 0.06 > 3 * (two - 0.06)


def test_where_threads_compute_on_the_same_cores_every_message_from_another_host_waits() -> None:
    """Unfused, two hundred tensors wait so often."""
    two_hosts = (2, 2)
    crowded, roomy = (
        step_s(JobShape(TENSORS, two_hosts, is_crowded=is_crowded), fusion_bytes=0) for is_crowded in (True, False)
    )

    assert crowded > roomy + len(TENSORS) * 6 * COSTS.crowded_wait_s


def test_without_the_response_cache_tensors_cost_more_the_more_ranks_there_are() -> None:
    """Their names go to the coordinator from each."""
    few, many = (step_s(job, response_cache=False) - step_s(job) for job in (ONE_HOST, FOUR_HOSTS))

    assert 0 < few < many


def test_more_of_anything_is_never_quicker() -> None:
    """Each constant, computing, and the tensors."""
    base = step_s(FOUR_HOSTS, hierarchical_allreduce=True)
    worse = [
        EngineCosts(call_s=20e-6),
        EngineCosts(byte_s=1e-9),
        EngineCosts(cycle_s=400e-6),
        EngineCosts(tensor_s=20e-6),
        EngineCosts(link=LinkCosts(latency_s=600e-6)),
        EngineCosts(link=LinkCosts(byte_s=80e-9)),
        EngineCosts(link=LinkCosts(contention=2.0)),
        EngineCosts(wake_s=500e-6),
    ]

    assert [costs for costs in worse if step_s(FOUR_HOSTS, costs, hierarchical_allreduce=True) <= base] == []
    assert step_s(JobShape(TENSORS * 2, FOUR_HOSTS.ranks_per_host), hierarchical_allreduce=True) > base
    assert step_s(FOUR_HOSTS, compute_s=0.07, hierarchical_allreduce=True) > base


def test_tensors_in_registered_memory_and_others_do_not_travel_together() -> None:
    """A few small tensors among large ones pay for one message more."""
    slow = EngineCosts(call_s=5e-3)
    mixed = JobShape((*TENSORS, 4), (2,))

    assert step_s(mixed, slow, cycle_ms=50.0) > step_s(ONE_HOST, slow, cycle_ms=50.0) + 4e-3


def test_batches_cost_threads_that_compute_on_the_same_cores() -> None:
    """A longer cycle saves wake-ups where every core computes; elsewhere the thread has a core of its own."""
    shared, own = (JobShape((1024,) * 200, (2,), is_crowded=is_crowded) for is_crowded in (True, False))

    assert step_s(shared, cycle_ms=0.05) > step_s(shared, cycle_ms=5.0) + 10 * COSTS.wake_s
    assert step_s(own, cycle_ms=0.05) < step_s(own, cycle_ms=5.0)


@pytest.mark.parametrize("job", [ONE_HOST, FOUR_HOSTS, JobShape((4,), (1,)), JobShape((4,) * 10_000, (8,) * 64)])
def test_any_legal_config_has_a_finite_time(job: JobShape) -> None:
    """Random configs and computing from a microsecond to a minute; several at once as each alone."""
    rng = np.random.default_rng(1)
    space = search_space({}, default_config(), tuned=tuple(default_config()))
    configs: list[Config] = [space.random(rng) for _ in range(200)]

    for compute_s in (1e-6, 0.05, 60.0):
        steps = expected_step_s(job, COSTS, compute_s, configs)
        assert np.all(np.isfinite(steps))
        assert np.all(steps >= compute_s)
        alone = [float(expected_step_s(job, COSTS, compute_s, [config])[0]) for config in configs[:20]]
        assert np.allclose(alone, steps[:20])


def test_skewed_shares_pay_where_links_differ_and_change_nothing_where_they_do_not() -> None:
    """The slowest link is the limit; its bytes follow from the shares."""
    slow = EngineCosts(link=LinkCosts(byte_s=80e-9))
    uneven, even = (JobShape(TENSORS, (1, 1, 1), link_rates=rates) for rates in ((2.0, 2.0, 1.0), (2.0, 2.0, 2.0)))

    gain = step_s(uneven, slow) / step_s(uneven, slow, skew=True)

    assert 1.2 < gain < 4 / 3
    assert step_s(even, slow) == step_s(even, slow, skew=True)


def test_rounded_gradients_pay_where_a_slow_link_is_the_limit_and_not_inside_a_host() -> None:
    """Half the bytes cross; on one host none do."""
    slow = EngineCosts(link=LinkCosts(byte_s=80e-9))
    between, inside = JobShape(TENSORS, (1, 1, 1)), JobShape(TENSORS, (3,))

    gain = step_s(between, slow) / step_s(between, slow, wire="bf16")

    assert 1.7 < gain <= 2.0
    assert step_s(inside, slow) == step_s(inside, slow, wire="bf16")
