# SPDX-License-Identifier: Apache-2.0
"""The engine's compiled-in sizes and the tuner's copy of them."""

from dataclasses import asdict

from ringtune import _engine
from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.space.parameters import ALGORITHMS_OF_ONE_HOST


def test_the_models_assume_the_sizes_that_are_compiled_in() -> None:
    """A size that changes in the engine alone would make every forecast wrong in silence."""
    assert _engine.engine_facts() == asdict(ENGINE_FACTS)


def test_the_default_algorithm_table_has_these_sizes() -> None:
    """The rows for one host and for two come from the same facts."""
    one_host, two_hosts = _engine.default_algorithm_table([0] * 4), _engine.default_algorithm_table([0, 1])

    assert (ENGINE_FACTS.direct_max_bytes, "direct", ENGINE_FACTS.chunk_for(1)) == one_host[0]
    assert {ENGINE_FACTS.chunk_for(2)} == {chunk_bytes for _, _, chunk_bytes in two_hosts}
    assert ENGINE_FACTS.posted_bytes == _engine.default_algorithm_table([0, 0])[0][0]


def test_the_algorithms_of_one_host_are_those_that_the_engine_runs_there() -> None:
    """All others that a config may name run between hosts."""
    between = {name for hierarchy in (False, True) for name in _engine.choices_of_auto([0, 0, 1, 1], hierarchy)}

    assert list(ALGORITHMS_OF_ONE_HOST) == _engine.choices_of_auto([0, 0], is_hierarchical=False)
    assert set(_engine.allreduce_algorithms()) == between | set(ALGORITHMS_OF_ONE_HOST)
