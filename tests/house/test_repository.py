# SPDX-License-Identifier: Apache-2.0
"""The house's rules hold in this repository; `test_gates.py` shows that each gate detects breaches of its rule."""

from collections.abc import Callable

import pytest

from tests.house import (
    documentation,
    environment_reads,
    folders,
    forbidden,
    lock_files,
    native_layers,
    one_caller,
    sizes,
    vague_words,
)
from tests.house.source_tree import REPOSITORY, SourceTree, Violation, listing

GATES = (
    sizes.long_files,
    sizes.large_functions,
    native_layers.include_violations,
    environment_reads.environment_violations,
    forbidden.missing_licences,
    forbidden.vague_names,
    forbidden.code_from_data,
    forbidden.facts_of_a_machine,
    forbidden.mutable_globals,
    forbidden.second_peer_rules,
    documentation.variable_violations,
    documentation.knob_violations,
    documentation.twin_pages,
    documentation.long_pages,
    lock_files.lock_violations,
    folders.test_imports,
    folders.benchmark_folders,
    folders.unlisted_benchmarks,
    vague_words.ceilings_exceeded,
    one_caller.ceilings_exceeded,
)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_the_repository_keeps_the_rule(gate: Callable[[SourceTree], list[Violation]]) -> None:
    """No file breaks the rule; the message names each place that does."""
    violations = gate(SourceTree(REPOSITORY))

    assert [] == violations, "\n" + listing(violations)
