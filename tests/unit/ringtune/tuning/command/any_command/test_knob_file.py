# SPDX-License-Identifier: Apache-2.0
"""Knob files are read strictly: each fault is named with file, line, key, value and the allowed values."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.tuning.command.any_command.knob_file import FilePlace, KnobEntry, KnobFile, Passing, read_knob_file
from tests.house.source_tree import REPOSITORY

PAGE = REPOSITORY / "docs" / "howto" / "any_command.md"
INT = "knobs:\n  - name: bucket\n    type: int\n    low: 1\n    high: 1e2\n    pass: {flag: --bucket}\n"


def written(folder: Path, text: str) -> Path:
    """Return the path of a knob file with a content."""
    path = folder / "knobs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_small_file_is_read(tmp_path: Path) -> None:
    """Numbers may have exponents; keys are split at their dots."""
    text = INT + "  - {name: on, type: bool, pass: {json: c.json, key: a.b}, when: {bucket: 5}}\nscore_regex: x(.)\n"

    knobs = read_knob_file(written(tmp_path, text))

    assert (1.0, 100.0, "--bucket") == (knobs.knobs[0].low, knobs.knobs[0].high, knobs.knobs[0].passing.flag)
    assert (("a", "b"), "c.json") == (knobs.knobs[1].passing.key, str(knobs.knobs[1].passing.file))
    assert ({"bucket": (5,)}, "x(.)") == (knobs.knobs[1].when, knobs.score_regex)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("low: 1\n", "low: ten\n", r"line 4: knob bucket: low 'ten': input should be a valid number"),
        ("low: 1\n", "low: true\n", r"line 4: knob bucket: low True: true is no number"),
        ("low: 1\n", "low: 500\n", r"line 2: knob bucket: low 500 is not below high 100"),
        ("low: 1\n", "low: 0.5\n", r"an int needs whole numbers, not 0.5 and 100"),
        ("low: 1\n", "low: 0\n    scale: log2\n", r"a log2 scale needs a low above 0, not 0"),
        (
            "low: 1\n",
            "loww: 1\n",
            r"line 4: knob bucket: loww is not known; did you mean low\?; known are name, type, p",
        ),
        ("low: 1\n", "scale: log\n", r"scale 'log': input should be 'linear', 'log2' or 'log10'"),
        (
            "type: int",
            "type: integer",
            r"line 3: knob bucket: type 'integer': input should be 'int', 'float', 'choice'",
        ),
        ("name: bucket", "name: my bucket", r"line 2: knob my bucket: name 'my bucket': String should match"),
        ("flag:", "flags:", r"line 6: knob bucket: pass flags is not known; did you mean flag\?; known are variable"),
        ("flag: --bucket", "", r"give one of variable, flag, switch, placeholder, json, yaml, text"),
        ("flag: --bucket", "flag: --b, variable: B", r"give one of variable, flag"),
        ("flag: --bucket", "json: a.json", r"key goes with json and yaml, and these need one"),
        ("flag: --bucket", "text: a.txt", r"a text file needs a placeholder"),
        ("flag: --bucket", "placeholder: '@b@'", r"a placeholder needs a default"),
        ("flag: --bucket", "switch: --bucket", r"a switch is a bool, not an int"),
        ("flag: --bucket", "json: {after: --c, path: x}, key: k", r"give either a path, or"),
        ("flag: --bucket}", "flag: --bucket}\n    default: many", r"default 'many' is no number"),
        (
            "flag: --bucket}",
            "flag: --bucket}\n    when: {other: 1}",
            r"when of bucket names other; knobs before it: no",
        ),
        (
            "flag: --bucket}",
            "flag: --bucket}\n    if_key: {a: 1}",
            r"if_key reads the knob's own file; this one has no",
        ),
        ("flag: --bucket}", "flag: --bucket}\n    choices: [1, 2]", r"choices belong to a choice"),
        ("low: 1\n    high: 1e2", "choices: [1, '1']", r"an int needs low and high"),
        (
            "type: int\n    low: 1\n    high: 1e2",
            "type: choice\n    choices: [1, '1']",
            r"at least two choices, all of them different",
        ),
        (
            "type: int\n    low: 1\n    high: 1e2",
            "type: bool\n    default: 1",
            r"default 1 is not possible; allowed: true",
        ),
    ],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """The message leads to the line."""
    assert old in INT

    with pytest.raises(ConfigError, match=said) as raised:
        read_knob_file(written(tmp_path, INT.replace(old, new, 1)))

    assert str(raised.value).startswith(f"--knobs {tmp_path}/knobs.yaml, line ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no knobs; write for example knobs:"),
        ("- 1", "holds no knobs"),
        ("knobs: [", "is no YAML"),
        ("knobs: !!python/object/apply:os.system [ls]", "is no YAML"),
        ("knobs: []", r"line 1: knobs: Tuple should have at least 1 item"),
        ("a: 1", r"knobs is missing"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """An example is shown where no key can be corrected; the file is never executed."""
    with pytest.raises(ConfigError, match=said):
        read_knob_file(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The message has the path."""
    with pytest.raises(ConfigError, match=r"--knobs .*none.yaml cannot be read"):
        read_knob_file(tmp_path / "none.yaml")


@pytest.mark.parametrize("model", [KnobFile, KnobEntry, Passing, FilePlace])
def test_the_page_has_every_key(model: type[KnobFile]) -> None:
    """The reference is complete."""
    page = PAGE.read_text("utf-8")

    missing = [key for name, field in model.model_fields.items() if f"`{(key := field.alias or name)}`" not in page]

    assert [] == missing
