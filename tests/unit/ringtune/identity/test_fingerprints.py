# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of models and hardware, and the keys of studies."""

import hashlib
from dataclasses import replace
from typing import Any

from ringtune.identity.fingerprints import (
    hardware_facts,
    hardware_fingerprint,
    layout_of,
    machine_facts,
    model_fingerprint,
    study_key,
)
from ringtune.identity.gpu_facts import Gpus
from ringtune.identity.gradient_set import Signature

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


RECORDED = "64dd2b5af98c8bd133d79fcc814666503b6a8e8d2e71c0b25bbd0fd1a0661b4a"
"""Key of `MACHINE` on its own as the versions before GPUs recorded it."""
MACHINE: dict[str, Any] = {"cpu_model": "EPYC", "cores": 64, "numa_nodes": 2, "gpus": []}
GPUS = Gpus(("H100", "H100"), "nvlink", "580.65.06")


def test_a_job_in_cpu_memory_keeps_the_key_that_it_had() -> None:
    """On a machine with GPUs too: earlier tuning runs stay valid."""
    with_gpus = {**MACHINE, **GPUS.facts("2.28.9")}

    assert RECORDED == hardware_fingerprint(hardware_facts([MACHINE], "shm"), None)
    assert RECORDED == hardware_fingerprint(hardware_facts([with_gpus], "shm", is_on_gpus=False), None)
    assert {"cpu_model", "cores", "numa_nodes", "gpus"} == set(machine_facts())


def test_jobs_on_gpus_have_keys_of_their_own() -> None:
    """Model, count, link and NCCL's minor version count; the driver does not."""
    others = [
        GPUS,
        Gpus(("H100",), "nvlink"),
        Gpus(("H200", "H200"), "nvlink"),
        Gpus(("H100", "H100"), "pcie"),
    ]
    facts = [machine_facts(), *map(machine_facts, others), machine_facts(GPUS, "2.28.9"), machine_facts(GPUS, "2.29.7")]
    keys = [hardware_fingerprint(hardware_facts([one], "shm"), None) for one in facts]

    assert len(facts) == len(set(keys))
    newer = machine_facts(replace(GPUS, driver="590.1"), "2.28.10")
    assert keys[5] == hardware_fingerprint(hardware_facts([newer], "shm"), None)


def test_hardware_is_a_multiset_of_machines() -> None:
    """The order of machines does not count, their number and links do."""
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
