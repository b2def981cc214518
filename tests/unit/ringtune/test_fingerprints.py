# SPDX-License-Identifier: Apache-2.0
"""Keys of what was learned."""

import hashlib
from typing import Any

from ringtune.fingerprints import (
    hardware_facts,
    hardware_fingerprint,
    layout_of,
    machine_facts,
    model_fingerprint,
    study_key,
)
from ringtune.gradient_set import Signature

COUNTS = {("float32", (10, 64)): 1, ("float32", (10,)): 2}


def test_a_model_is_its_sorted_gradients() -> None:
    """The fingerprint is the contract's SHA-256 and does not depend on the order of registration."""
    canonical = '[["float32",[10],2],["float32",[10,64],1]]'

    assert hashlib.sha256(canonical.encode()).hexdigest() == model_fingerprint(COUNTS)
    assert model_fingerprint(COUNTS) == model_fingerprint(dict(reversed(COUNTS.items())))


def test_another_shape_dtype_or_count_is_another_model() -> None:
    """Each of the three counts."""
    others: list[dict[Signature, int]] = [{("float32", (11,)): 2}, {("float64", (10,)): 2}, {("float32", (10,)): 3}]

    assert 4 == len({model_fingerprint({("float32", (10,)): 2}), *map(model_fingerprint, others)})


def test_hardware_is_what_the_machine_declares() -> None:
    """Two looks at one machine agree; an override replaces the facts."""
    hardware = hardware_facts([machine_facts()], "shm")

    assert hardware == hardware_facts([machine_facts()], "shm")
    assert hardware_fingerprint(hardware, "lab") != hardware_fingerprint(hardware, None)
    assert hardware_fingerprint(hardware, "lab") == hardware_fingerprint([], "lab")


def test_hardware_is_a_multiset_of_machines() -> None:
    """Their order does not count, their number and links do."""
    small: dict[str, Any] = {"cores": 2, "link_bits_per_s": 10**9}
    large: dict[str, Any] = {"cores": 64, "link_bits_per_s": 10**9}
    jobs = [
        hardware_facts([small, large], "tcp"),
        hardware_facts([large, small], "tcp"),
        hardware_facts([small, large, large], "tcp"),
        hardware_facts([small, {**large, "link_bits_per_s": 10**10}], "tcp"),
        hardware_facts([small, large], "mpi"),
    ]

    keys = [hardware_fingerprint(job, None) for job in jobs]

    assert keys[0] == keys[1]
    assert 4 == len(set(keys))


def test_a_network_that_is_not_used_does_not_count() -> None:
    """A job on one machine has the same key with and without a network card."""
    with_card = hardware_facts([{**machine_facts(), "link_bits_per_s": 10**9}], "shm")

    assert hardware_facts([machine_facts()], "shm") == with_card


def test_a_study_key_has_the_contracts_parts() -> None:
    """Hardware, model, layout, target and surface version."""
    key = study_key(COUNTS, [2], hardware_fingerprint([], "lab"))

    assert {"hardware", "model", "layout", "target", "surface_version"} == set(key)
    assert [2] == key["layout"]
    assert [1, 4] == layout_of([4, 1])
