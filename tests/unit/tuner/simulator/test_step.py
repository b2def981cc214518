# SPDX-License-Identifier: Apache-2.0
"""Tests of a whole step: the engine's rules of batching and fusion, and the bounds of physics."""

import math
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtune.tuner.simulator import (
    MODELS,
    Cluster,
    Gradient,
    Link,
    SimulatedJob,
    SimulatedMachine,
    StepTrace,
    model_job,
    parse_link,
    predicted_step_ms,
    simulate_step,
    simulated_space,
)
from ringtune.tuner.simulator.knobs import Algorithm
from ringtune.tuner.simulator.step import Tensor, fuse
from tests.unit.tuner.simulator.jobs import MIB, config_of, hosts_of, job_of

KIB = 1024
QUICK = SimulatedMachine(submit_us=0.0, wake_us=0.0, switch_us=0.0)


def trace_of(job: SimulatedJob, cluster: Cluster | None = None, **values: float | str | bool) -> StepTrace:
    """Return a step on a machine that wakes in no time, by default of two ranks with cores to spare."""
    return simulate_step(QUICK, cluster or Cluster(1, 2, 8), job, config_of(**values))


def tensors(trace: StepTrace) -> list[int]:
    """Return the number of tensors in each message."""
    return [response.tensors for response in trace.responses]


def test_a_world_of_one_does_not_communicate() -> None:
    """The step is its computation, to the last bit."""
    job = model_job("resnet50", 100.0)

    trace = simulate_step(SimulatedMachine(), Cluster(1, 1, 2), job, config_of(fusion_bytes=0))

    assert job.compute_ms == trace.step_ms
    assert (0, (), 0.0, 0.0) == (trace.batches, trace.responses, trace.exposed_ms, trace.communication_ms)


def test_every_tensor_travels_once() -> None:
    """Messages carry all gradients and their bytes, in order of time, none beside another."""
    job = model_job("mobilenet_v2", 20.0)

    trace = simulate_step(SimulatedMachine(), Cluster(), job, config_of(fusion_bytes=MIB, cycle_ms=0.5))

    assert len(job.gradients) == sum(tensors(trace))
    assert job.bytes == sum(response.bytes for response in trace.responses)
    times = [time for response in trace.responses for time in (response.start_ms, response.end_ms)]
    assert sorted(times) == times


def test_a_batch_goes_when_its_first_tensor_has_waited() -> None:
    """Gradients every 1 ms, a cycle of 2.5 ms: three go together, the next three after them."""
    trace = trace_of(job_of(*[4 * KIB] * 6, backward_ms=6.0), cycle_ms=2.5)

    assert [3, 3] == tensors(trace)
    assert 5.0 + 1.0 + 2.5 == pytest.approx(trace.responses[0].start_ms, abs=0.01)


def test_a_batch_goes_when_fusion_bytes_are_there() -> None:
    """However long the cycle: two gradients of 64 KiB fill a message of 128 KiB."""
    trace = trace_of(job_of(*[64 * KIB] * 6, backward_ms=6.0), cycle_ms=50.0, fusion_bytes=128 * KIB)

    assert [2, 2, 2] == tensors(trace)


def test_a_batch_goes_when_the_step_is_complete() -> None:
    """The last gradient does not wait, however long the cycle."""
    trace = trace_of(job_of(*[4 * KIB] * 5, backward_ms=5.0), cycle_ms=50.0)

    assert [5] == tensors(trace)
    assert 10.0 == pytest.approx(trace.responses[0].start_ms, abs=0.01)


def test_without_fusion_every_tensor_is_asked_for_alone() -> None:
    """A step without fusion has as many batches and messages as gradients."""
    trace = trace_of(job_of(*[4 * KIB] * 5), cycle_ms=50.0, fusion_bytes=0)

    assert [1] * 5 == tensors(trace)
    assert 5 == trace.batches


def test_tensors_gather_while_an_allreduce_runs() -> None:
    """No batch goes meanwhile: after a long message the others go as one, though each would have gone alone."""
    job = job_of(64 * MIB, *[4 * KIB] * 8, backward_ms=9.0)

    trace = trace_of(job, hosts_of(2, 1, "1gbit"), cycle_ms=0.05)

    assert [1, 8] == tensors(trace)


@pytest.mark.parametrize(("backward_ms", "messages"), [(20.0, 1), (200.0, 4)])
def test_tensors_wait_for_a_rest_that_is_less_than_a_round_trip_away(backward_ms: float, messages: int) -> None:
    """A round trip of 40 ms: a step's end that is further away is not waited for, and a near one is."""
    cluster = Cluster(2, 1, 64, parse_link("25gbit", latency_us=20_000.0))

    trace = trace_of(job_of(*[4 * KIB] * 8, backward_ms=backward_ms), cluster)

    assert messages == len(trace.responses)
    assert 8 == sum(tensors(trace))


def test_tensors_do_not_wait_between_hosts_that_are_near() -> None:
    """Each of the eight goes alone, 1 ms after the one before."""
    trace = trace_of(job_of(*[4 * KIB] * 8, backward_ms=8.0), hosts_of(2, 1), cycle_ms=0.05)

    assert [1] * 8 == tensors(trace)


def test_requests_go_between_the_messages_of_a_round() -> None:
    """After each of three long messages tensors are requested; those that arrived by the last end are answered."""
    gradients = tuple(Gradient(f"l{n}", (MIB // 4,), 0.0) for n in range(3))
    gradients += tuple(Gradient(f"s{n}", (16,), 1.0) for n in range(8))
    job = SimulatedJob("long", gradients, 0.0, 24.0, home_bytes=None)

    trace = trace_of(job, hosts_of(2, 1, "1gbit"), cycle_ms=0.05, fusion_bytes=MIB)

    assert [1, 1, 1, 6, 2] == tensors(trace)
    assert 4 == trace.batches


def test_threads_that_sleep_must_be_woken() -> None:
    """Three in turn while the backward pass runs: each rank's for its batch, rank 0's, and all for the response."""
    job = job_of(4 * KIB, 4 * KIB, backward_ms=100.0)
    starts_ms = [
        simulate_step(SimulatedMachine(wake_us=wake_us), Cluster(1, 2, 8), job, config_of()).responses[0].start_ms
        for wake_us in (0.0, 2000.0)
    ]

    assert 3 * 2.0 == pytest.approx(starts_ms[1] - starts_ms[0])


def test_gradients_beyond_the_cache_come_from_memory() -> None:
    """The same job on a machine with a larger cache, and with none."""
    job = job_of(*[MIB] * 8)
    times_ms = [
        predicted_step_ms(SimulatedMachine(cache_bytes=cache_bytes), Cluster(), job, config_of())
        for cache_bytes in (1e12, 8.0 * MIB, 0.0)
    ]

    assert sorted(times_ms) == times_ms
    assert len(set(times_ms)) == 3


def test_fusion_passes_over_other_types() -> None:
    """float32 and float16 in turn: one message of each."""
    gradients = tuple(Gradient(f"g{n}", (64,), 0.0, "float16" if n % 2 else "float32") for n in range(6))

    trace = trace_of(SimulatedJob("mixed", gradients, 1.0, 1.0), cycle_ms=50.0)

    assert [(3, 3 * 256), (3, 3 * 128)] == [(response.tensors, response.bytes) for response in trace.responses]


def test_registered_tensors_are_fused_among_themselves() -> None:
    """Large ones, which live in registered memory, travel without the small ones."""
    trace = trace_of(job_of(4 * KIB, MIB, 4 * KIB, MIB, home_bytes=64 * KIB), cycle_ms=50.0)

    assert [Algorithm.DIRECT, Algorithm.REGISTERED] == [response.algorithm for response in trace.responses]


sized = st.builds(Tensor, st.integers(0, 4096), st.sampled_from(["a", "b"]), st.booleans())


@given(st.lists(sized, max_size=40), st.integers(0, 8192))
def test_fusion_keeps_its_limit(ready: list[Tensor], fusion_bytes: int) -> None:
    """Every tensor once; of one kind; up to the limit, unless one alone is above it; oldest first."""
    fusions = fuse(ready, fusion_bytes)

    assert sorted(map(id, ready)) == sorted(id(tensor) for fused in fusions for tensor in fused)
    assert all(fused[0].is_fusable(tensor) for fused in fusions for tensor in fused)
    assert all(len(fused) == 1 or sum(t.bytes for t in fused) <= fusion_bytes for fused in fusions)
    assert fusions == [] or fusions[0][0] is ready[0]


def test_without_fusion_every_tensor_costs_something() -> None:
    """Twice the tensors of half the size lose twice as much without fusion, roughly."""

    def lost_ms(count: int) -> float:
        job = job_of(*[16 * KIB * 64 // count] * count, backward_ms=0.0)
        return trace_of(job, fusion_bytes=0).step_ms - trace_of(job).step_ms

    assert 0.0 < 1.5 * lost_ms(64) < lost_ms(128) < 3.0 * lost_ms(64)


@pytest.mark.parametrize("cycle_ms", [0.05, 1.0, 7.0, 50.0])
@pytest.mark.parametrize("model", ["mobilenet_v2", "manysmall"])
def test_a_long_cycle_costs_at_most_the_wait(model: str, cycle_ms: float) -> None:
    """Against the best of all cycles, on cores of its own."""
    job, cluster = model_job(model, 30.0), Cluster(1, 2, 8)
    times = [
        predicted_step_ms(SimulatedMachine(), cluster, job, config_of(cycle_ms=c)) for c in np.geomspace(0.05, 50.0, 20)
    ]

    taken = predicted_step_ms(SimulatedMachine(), cluster, job, config_of(cycle_ms=cycle_ms))

    assert taken <= min(times) + cycle_ms


def test_a_cycle_longer_than_the_step_changes_nothing_more() -> None:
    """The step's last tensor sends the batch."""
    job = model_job("mobilenet_v2", 10.0)

    assert trace_of(job, cycle_ms=20.0).step_ms == trace_of(job, cycle_ms=50.0).step_ms


def test_without_the_cache_a_step_costs_more_with_more_tensors_and_ranks() -> None:
    """Names are read by rank 0 for every tensor of every rank."""

    def lost_ms(tensor_count: int, hosts: int) -> float:
        job, cluster = job_of(*[4 * KIB] * tensor_count, backward_ms=0.0), hosts_of(hosts, 8)
        return trace_of(job, cluster, response_cache=False).step_ms - trace_of(job, cluster).step_ms

    assert 0.0 < lost_ms(50, 2) < lost_ms(200, 2) < lost_ms(200, 16)


@pytest.mark.parametrize("is_hierarchical", [True, False])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_more_hosts_are_never_faster(model: str, is_hierarchical: bool) -> None:
    """Weak scaling: the same work per rank, doubling the hosts; overlap and fusion may differ by 2 %."""
    job = model_job(model, 50.0, compute_threads=0.0)
    config = config_of(hierarchical_allreduce=is_hierarchical)

    times = [
        predicted_step_ms(SimulatedMachine(), hosts_of(hosts, 4, "1gbit"), job, config) for hosts in (2, 4, 8, 16, 32)
    ]

    assert all(later >= 0.98 * earlier for earlier, later in pairwise(times))
    assert times[-1] > times[0]


@given(st.sampled_from(sorted(MODELS)), st.floats(1e7, 1e10), st.floats(1.0, 30.0), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_faster_link_is_not_slower(model: str, rate: float, factor: float, is_hierarchical: bool) -> None:
    """A faster link costs at most 2 %, for a batch that goes earlier, and so with less in it."""
    job = model_job(model, 50.0, compute_threads=0.0)
    slow, fast = (Cluster(4, 2, 16, Link(speed)) for speed in (rate, rate * factor))
    config = config_of(hierarchical_allreduce=is_hierarchical)

    assert predicted_step_ms(SimulatedMachine(), fast, job, config) <= 1.02 * predicted_step_ms(
        SimulatedMachine(), slow, job, config
    )


def test_overlap_hides_communication_while_there_is_something_to_compute() -> None:
    """The exposed time is far below the time of the allreduces, and never below zero."""
    trace = trace_of(job_of(*[MIB] * 32, backward_ms=100.0), hosts_of(2, 1, "10gbit"))

    assert 0.0 <= trace.exposed_ms < 0.2 * trace.communication_ms


def test_ranks_that_share_cores_lose_computing_time() -> None:
    """The same job with and without a core for the communication thread."""
    job = model_job("resnet50", 60.0)

    tight, roomy = (predicted_step_ms(SimulatedMachine(), Cluster(1, 2, cores), job, config_of()) for cores in (2, 4))

    assert tight > roomy


MEASURED_MS = (
    ("resnet50", 2, False, 12.6),
    ("bert_base", 2, False, 49.0),
    ("mobilenet_v2", 2, False, 2.3),
    ("manysmall", 2, False, 10.2),
    ("resnet50", 2, True, 9.0),
    ("bert_base", 2, True, 42.0),
    ("mobilenet_v2", 2, True, 1.9),
    ("manysmall", 2, True, 5.6),
    ("mobilenet_v2", 4, False, 6.4),
    ("manysmall", 4, False, 21.5),
    ("mobilenet_v2", 4, True, 4.3),
    ("manysmall", 4, True, 12.0),
)
"""Model, ranks, registered, and the engine's step in benchmarks/README.md, "Steps of gradients"."""


@pytest.mark.parametrize(("model", "ranks", "is_registered", "measured_ms"), MEASURED_MS)
def test_steps_without_computing_are_near_what_was_measured(
    model: str, ranks: int, is_registered: bool, measured_ms: float
) -> None:
    """Within a factor of 1.7, on a machine whose own speed changed by 2: the right order, and no fit."""
    job = SimulatedJob(model, MODELS[model](), 0.0, 0.0, 1e-3, 0.0, 0 if is_registered else None)

    predicted_ms = predicted_step_ms(SimulatedMachine(), Cluster(1, ranks, 2), job, config_of())

    assert 1 / 1.7 < predicted_ms / measured_ms < 1.7


@pytest.mark.parametrize(("is_hierarchical", "measured_ms"), [(True, 131.5), (False, 202.0)])
def test_a_step_between_hosts_is_near_what_was_measured(is_hierarchical: bool, measured_ms: float) -> None:
    """MobileNetV2, two hosts of two ranks at 1 Gbit/s: within 15 % of benchmarks/README.md, "Between hosts"."""
    job = SimulatedJob("mobilenet_v2", MODELS["mobilenet_v2"](), 0.0, 0.0, 1e-3, 0.0)
    cluster = hosts_of(2, 2, "1gbit", cores_per_host=2)

    predicted_ms = predicted_step_ms(
        SimulatedMachine(), cluster, job, config_of(hierarchical_allreduce=is_hierarchical)
    )

    assert measured_ms == pytest.approx(predicted_ms, rel=0.15)


@given(
    st.sampled_from(sorted(MODELS)),
    st.integers(0, 2**32 - 1),
    st.tuples(st.sampled_from([1, 2, 5, 64]), st.integers(1, 16), st.integers(1, 64)),
    st.floats(0.0, 4.0),
    st.sampled_from(["1mbit", "100mbit", "25gbit"]),
)
@settings(max_examples=60, deadline=None)
def test_every_legal_config_gives_a_finite_time(
    model: str, seed: int, counts: tuple[int, int, int], threads: float, link: str
) -> None:
    """At least the computing time; the same for the same config."""
    hosts, ranks, cores = counts
    cluster, job = hosts_of(hosts, ranks, link, cores), model_job(model, 20.0, compute_threads=threads)
    config = simulated_space(cluster, config_of(), {}).random(np.random.default_rng(seed))

    trace = simulate_step(SimulatedMachine(), cluster, job, config)

    assert math.isfinite(trace.step_ms)
    assert trace.step_ms >= job.compute_ms * (1 - 1e-12)
    assert trace == simulate_step(SimulatedMachine(), cluster, job, config)


@pytest.mark.parametrize("values", [{}, {"fusion_bytes": 0}, {"fusion_bytes": 64 * KIB, "cycle_ms": 0.05}])
def test_a_step_of_512_ranks_is_simulated_in_milliseconds(values: dict[str, float]) -> None:
    """Well under 50 ms of processor time, the quickest of three, for the model with the most tensors."""
    job, cluster = model_job("manysmall", 100.0, compute_threads=0.0), hosts_of(64, 8)
    taken_s = []
    for _ in range(3):
        start_s = time.thread_time()
        predicted_step_ms(SimulatedMachine(), cluster, job, config_of(hierarchical_allreduce=True, **values))
        taken_s.append(time.thread_time() - start_s)

    assert min(taken_s) < 0.05
