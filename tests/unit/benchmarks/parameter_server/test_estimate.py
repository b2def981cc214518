# SPDX-License-Identifier: Apache-2.0
"""Estimated steps follow from the bytes on the busiest link."""

import pytest

from benchmarks.parameter_server.estimate import Setting, lockstep_ms, own_ms, simulated_ms, step_ms
from benchmarks.parameter_server.student import Student
from benchmarks.parameter_server.trial import ASYNC, DDP, RINGTUNE, SYNC, TENSORFLOW, Trial

OWN_MS = 5.0
LINK = "100mbit"


def setting(way: str, servers: int, workers: int) -> Setting:
    """Return a cell at 100 Mbit/s."""
    return Setting(way, servers, workers, LINK)


def test_the_bytes_are_those_of_the_model() -> None:
    """The estimate counts the parameters that the workers really send."""
    parameters = Student(Trial(DDP, 0, 2, LINK), 0).parameters()

    assert 4 * len(parameters) == setting(DDP, 0, 2).bytes


def test_a_synchronous_server_carries_every_gradient_in_and_as_many_parameters_out() -> None:
    """Wait, own time and two transfers for each worker; two servers halve the latter."""
    transfer_ms = setting(SYNC, 1, 8).transfer_ms

    assert 89.5 == pytest.approx(transfer_ms, rel=0.01)  # 1.07 MB at 95.6 % of 12.5 MB/s
    assert 20 + OWN_MS + 16 * transfer_ms == pytest.approx(step_ms(setting(SYNC, 1, 8), OWN_MS))
    assert 20 + OWN_MS + 8 * transfer_ms == pytest.approx(step_ms(setting(SYNC, 2, 8), OWN_MS))
    assert 20 + OWN_MS + 2 * transfer_ms == pytest.approx(step_ms(setting(SYNC, 16, 8), OWN_MS))


def test_an_asynchronous_server_is_bound_by_one_direction_of_its_link() -> None:
    """Few workers wait for their own transfers alone; many share the link."""
    transfer_ms = setting(ASYNC, 1, 8).transfer_ms

    assert 20 + OWN_MS + 2 * transfer_ms == pytest.approx(step_ms(setting(ASYNC, 1, 2), OWN_MS))
    assert 64 * transfer_ms == pytest.approx(step_ms(setting(ASYNC, 1, 64), OWN_MS))


def test_asynchronous_workers_in_lockstep_take_as_long_as_synchronous_ones() -> None:
    """Those that send together use one direction of the server's link at a time."""
    assert step_ms(setting(SYNC, 2, 8), OWN_MS) == lockstep_ms(setting(ASYNC, 2, 8), OWN_MS)


def test_a_ring_carries_less_than_two_gradients_however_many_workers_there_are() -> None:
    """DDP's step approaches wait, own time and two transfers; the simulator's engine is near to it."""
    transfer_ms = setting(DDP, 0, 8).transfer_ms

    assert 20 + OWN_MS + 1.75 * transfer_ms == pytest.approx(step_ms(setting(DDP, 0, 8), OWN_MS))
    assert step_ms(setting(DDP, 0, 64), OWN_MS) < 20 + OWN_MS + 2 * transfer_ms
    assert step_ms(setting(DDP, 0, 8), 0.0) == pytest.approx(simulated_ms(setting(RINGTUNE, 0, 8)), rel=0.1)


@pytest.mark.parametrize("way", [SYNC, ASYNC, DDP, RINGTUNE])
def test_the_own_time_is_what_a_measurement_has_beside_wait_and_wire(way: str) -> None:
    """An estimate with the own time of a measurement is that measurement."""
    cell = setting(way, 1 if way in (SYNC, ASYNC) else 0, 2)

    assert 300.0 == pytest.approx(step_ms(cell, own_ms(cell, 300.0)))


def test_a_way_without_an_estimate_is_refused() -> None:
    """TensorFlow is a witness of what was measured."""
    with pytest.raises(ValueError, match="no estimate for 'tensorflow async'"):
        step_ms(setting(TENSORFLOW, 1, 2), OWN_MS)
