# SPDX-License-Identifier: Apache-2.0
"""Gradient workloads, from a file to a contestant's argument."""

import json
from pathlib import Path
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient, read_workload, read_workloads
from ringtune.tuner.simulator.job import read_gradients

CONTENTS = {
    "name": "small",
    "dtype": "float32",
    "order": "backward",
    "tensors": [{"name": "fc.bias", "shape": [3]}, {"name": "fc.weight", "shape": [3, 5]}, {"name": "t", "shape": []}],
}
WORKLOAD = Workload(
    "small", (WorkloadGradient("fc.bias", 3), WorkloadGradient("fc.weight", 15), WorkloadGradient("t", 1))
)


def write(path: Path, contents: Any) -> Path:
    """Write a file of gradients."""
    path.write_text(json.dumps(contents), encoding="utf-8")
    return path


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    """A shape becomes its number of elements; a scalar has one."""
    workload = read_workload(write(tmp_path / "small.json", CONTENTS))

    assert WORKLOAD == workload
    assert 4 * 19 == workload.bytes


def test_a_workload_survives_the_command_line() -> None:
    """Names with colons and equals signs, as TensorFlow gives them, too."""
    workload = Workload("a-b_1.0", (WorkloadGradient("dense/kernel:0", 2), WorkloadGradient("x=y", 7)))

    assert "a-b_1.0:dense/kernel:0=8,x=y=28" == workload.argument()
    assert workload == Workload.from_argument(workload.argument())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, r"the name 'a b' is not made of letters"),
        ({"dtype": "float16"}, r"the dtype is 'float16'"),
        ({"tensors": []}, r"there are no tensors"),
        ({"tensors": [3]}, r"the tensor 3 is no object"),
        ({"tensors": [{"shape": [1]}]}, r"'name' is missing"),
        ({"tensors": [{"name": "a,b", "shape": [1]}]}, r"the tensor name 'a,b' is empty or has a comma"),
        ({"tensors": [{"name": "a", "shape": [0, 3]}]}, r"the shape \[0, 3\] of 'a' is no list of positive numbers"),
        ({"tensors": [{"name": "a", "shape": "1"}]}, r"the shape '1' of 'a' is no list"),
        ({"tensors": [{"name": "a", "shape": [1]}] * 2}, r"two tensors have one name"),
        ({"tensors": [{"name": "a" * 120_000, "shape": [1]}]}, r"1 tensors and their names take 120008 bytes, above"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """The refusal names the file and the fault in it."""
    path = write(tmp_path / "small.json", {**CONTENTS, **changes})

    with pytest.raises(ConfigError, match=rf"--workload {path}: {message}"):
        read_workload(path)


def test_what_is_no_workload_is_refused(tmp_path: Path) -> None:
    """Missing files, text, and JSON of another kind."""
    text = tmp_path / "text"
    text.write_text("hello", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\); give a file of gradients"):
        read_workload(tmp_path / "missing.json")
    with pytest.raises(ConfigError, match=r"text is no JSON"):
        read_workload(text)
    with pytest.raises(ConfigError, match=r"it holds a list"):
        read_workload(write(tmp_path / "list.json", []))
    with pytest.raises(ConfigError, match=r"'dtype' is missing"):
        read_workload(write(tmp_path / "part.json", {"name": "part"}))


NESTED = "[" * 800 + "]" * 800


@pytest.mark.parametrize(
    "text", ["[" * 100_000, f'{{"name": "x", "dtype": "float32", "tensors": [{NESTED}]}}'], ids=["too deep", "deep"]
)
def test_a_nested_file_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    """Neither the parser nor the message follows it to its depth."""
    (tmp_path / "deep.json").write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"--workload .*deep\.json") as refused:
        read_workload(tmp_path / "deep.json")
    with pytest.raises(ConfigError, match=r"the workload .*deep\.json"):
        read_gradients(tmp_path / "deep.json")

    assert len(str(refused.value)) < 1000


def test_two_workloads_of_one_name_are_refused(tmp_path: Path) -> None:
    """Rows of two workloads with one name could not be told apart."""
    paths = [write(tmp_path / name, CONTENTS) for name in ("a.json", "b.json")]

    with pytest.raises(ConfigError, match=r"b\.json and .*a\.json are both named 'small'"):
        read_workloads(paths)
