# SPDX-License-Identifier: Apache-2.0
"""The operations for TensorFlow's graphs: in real jobs, when they are built, and where they cannot be used."""

import sys
from pathlib import Path

import pytest

from tests.integration.jobs import run_job
from tests.tensorflow.launching import WAYS, assert_all_right, needs_operations, run

TRACE = """
import sys
from pathlib import Path
import tensorflow as tf
from ringtune.graph_operations import graph_library
graph_library.library_folders = lambda: iter([Path(sys.argv[1])])
import ringtune.tensorflow as hvd
hvd.init()
for _ in range(2):
    variable = tf.Variable([1.0])
    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = 3.0 * variable
        return hvd.DistributedGradientTape(tape).gradient(loss, [variable])[0]
    print(float(step()[0]))
"""


@pytest.mark.parametrize("way", WAYS)
def test_gradients_go_the_way_that_was_chosen(way: str) -> None:
    """The graph has the operations where they were built; the results are the same."""
    assert_all_right(run(2, "graph_operations", way, "graph", "loop", "unused", "precision"), 2)


@needs_operations
def test_gradients_are_submitted_as_soon_as_they_are_computed() -> None:
    """Communication overlaps with the backward pass; an error of one tensor ends the step without a crash."""
    assert_all_right(run(2, "graph_operations", "operations", "overlap", "mismatch"), 2)
    assert_all_right(run(1, "graph_operations", "operations", "late", "shutdown"), 1)


@needs_operations
def test_ranks_with_and_without_the_operations_train_together() -> None:
    """The way of a rank's gradients is its own affair."""
    assert_all_right(run(2, "training", "mixed", "fit", "options", "sparse"), 2)


@pytest.mark.parametrize(
    ("name", "words"),
    [("tensorflow-1.99.0.so", "were built for tensorflow-1.99.0, not for tensorflow-"), (None, "cannot be loaded")],
)
def test_operations_that_do_not_fit_are_named_once_and_not_used(tmp_path: Path, name: str | None, words: str) -> None:
    """A library for another TensorFlow, or a broken one, is one warning; gradients go through numpy functions."""
    version = "import importlib.metadata as m; print(m.version('tensorflow-cpu'))"
    fitting = f"tensorflow-{run_job([sys.executable, '-c', version]).stdout.strip()}.so"
    (tmp_path / (name or fitting)).write_text("no library")

    finished = run_job([sys.executable, "-c", TRACE, str(tmp_path)])

    assert 0 == finished.code, finished.text
    assert "3.0\n3.0\n" == finished.stdout, finished.text
    assert 1 == finished.stderr.count("gradients go through numpy functions"), finished.text
    assert words in finished.stderr, finished.text


@pytest.mark.parametrize(
    ("compiler", "words"),
    [("no-such-compiler", "install g++, or name a compiler with --compiler"), ("false", "could not be compiled")],
)
def test_a_build_that_is_not_possible_says_why(compiler: str, words: str) -> None:
    """Without a compiler, or with one that fails, the exit status is 2 and the text names the remedy."""
    finished = run_job([sys.executable, "-m", "ringtune.tensorflow_op", "--compiler", compiler])

    assert 2 == finished.code, finished.text
    assert words in finished.stderr, finished.text
    assert "Traceback" not in finished.stderr, finished.text
