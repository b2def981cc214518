# SPDX-License-Identifier: Apache-2.0
"""Keys of what was learned."""

import hashlib

from ringtune.fingerprints import hardware_facts, hardware_fingerprint, layout_of, model_fingerprint, study_key
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
    assert hardware_facts() == hardware_facts()
    assert hardware_fingerprint(None) == hardware_fingerprint(None)
    assert hardware_fingerprint("lab") != hardware_fingerprint(None)


def test_a_study_key_has_the_contracts_parts() -> None:
    """Hardware, model, layout, target and surface version."""
    key = study_key(COUNTS, [2], "lab")

    assert {"hardware", "model", "layout", "target", "surface_version"} == set(key)
    assert [2] == key["layout"]
    assert [1, 4] == layout_of([4, 1])
