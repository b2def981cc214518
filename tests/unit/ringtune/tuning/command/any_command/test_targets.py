# SPDX-License-Identifier: Apache-2.0
"""Commands, files and variables that configs become."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

from ringtune.errors import ConfigError
from ringtune.tuner import Config
from ringtune.tuning.command.any_command import command_engine, read_knob_file
from ringtune.tuning.command.engines import Engine

OUT = Path("/out")
FLAG = "{name: bucket, type: int, low: 1, high: 100, default: 25, pass: {flag: --bucket}}"
JOINED = "{name: level, type: choice, choices: [1, 2, fast], pass: {flag: '-O{}'}}"
SWITCH = "{name: overlap, type: bool, pass: {switch: --overlap, off: --no-overlap}}"
VARIABLE = "{name: threads, type: int, low: 1, high: 8, pass: {variable: THREADS}}"
RATE = "{name: rate, type: float, low: 1e-6, high: 1, scale: log10, pass: {flag: --rate}}"
IN_JSON = "{name: size, type: int, low: 10, high: 1e6, scale: log2, pass: {json: {after: [--conf, -c]}, key: a.b}}"
IN_YAML = "{name: depth, type: int, low: 1, high: 9, pass: {yaml: c.yaml, key: [x.y, depth]}}"
IN_TEXT = "{name: words, type: bool, default: false, pass: {text: t.ini, placeholder: '@w@', on: 'yes', off: 'no'}}"


def engine_of(folder: Path, command: str, *knobs: str) -> Engine:
    """Return the engine of a command and some knobs."""
    path = folder / "knobs.yaml"
    path.write_text("knobs:\n" + "".join(f"- {knob}\n" for knob in knobs), encoding="utf-8")
    return command_engine("command", read_knob_file(path), shlex.split(command))


def launched(engine: Engine, command: str, **values: float | str | bool) -> str:
    """Return the command line of a trial."""
    config = engine.effective(engine.space({}).validate(engine.baseline().replace(values)))
    return shlex.join(engine.command_of(config, OUT, shlex.split(command)))


@pytest.mark.parametrize(
    ("command", "values", "line"),
    [
        ("run", {"bucket": 50}, "run --bucket 50"),
        ("run --bucket 7 x", {"bucket": 50}, "run --bucket 50 x"),
        ("run --bucket=7 x", {"bucket": 50}, "run --bucket=50 x"),
        ("run", {"level": "2"}, "run -O2"),
        ("run -O1 x", {"level": "fast"}, "run -Ofast x"),
        ("run", {"overlap": "on"}, "run --overlap"),
        ("run", {"overlap": "off"}, "run --no-overlap"),
        ("run --no-overlap x", {"overlap": True}, "run --overlap x"),
        ("run", {"rate": 1e-5}, "run --rate 1e-05"),
        ("run", {"bucket": 50, "level": "2"}, "run --bucket 50 -O2"),
    ],
)
def test_flags_are_set_where_they_are_or_at_the_end(
    tmp_path: Path, command: str, values: dict[str, float | str | bool], line: str
) -> None:
    """The baseline is the command as it is."""
    engine = engine_of(tmp_path, command, FLAG, JOINED, SWITCH, RATE)

    assert command == launched(engine, command)
    assert line == launched(engine, command, **values)


def test_the_baseline_is_what_the_command_says(tmp_path: Path) -> None:
    """The command's own value counts before the knob file's default; one out of range or in words stays possible."""
    assert 25 == engine_of(tmp_path, "run", FLAG).baseline()["bucket"]
    assert 7 == engine_of(tmp_path, "run --bucket 7", FLAG).baseline()["bucket"]
    assert 500 == engine_of(tmp_path, "run --bucket 500", FLAG).baseline()["bucket"]
    assert "auto" == engine_of(tmp_path, "run --bucket auto", FLAG).baseline()["bucket"]
    assert "default" == engine_of(tmp_path, "run", VARIABLE).baseline()["threads"]
    assert True is engine_of(tmp_path, "run --overlap", SWITCH).baseline()["overlap"]


def test_variables_are_set_beside_the_users(tmp_path: Path) -> None:
    """One that the environment sets already is left alone; the number 1 is no word for true."""
    switch = "{name: fast, type: bool, default: false, pass: {variable: FAST}}"
    engine = engine_of(tmp_path, "run", VARIABLE, switch)

    assert {"THREADS": "4"} == engine.variables(engine.baseline().replace({"threads": 4}), OUT)
    assert {"THREADS": "1", "FAST": "1"} == engine.variables(
        engine.baseline().replace({"threads": 1, "fast": True}), OUT
    )
    assert {"threads": "default"} == engine.space({"THREADS": "2"}).fixed


def test_files_are_copies_with_other_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy's path takes the file's place, in any form; the user's files stay; text is filled in every launch."""
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text('{"z": 1, "a": {"b": "auto"}}', encoding="utf-8")
    Path("c.yaml").write_text("# mine\nx.y: {depth: 2}  # deep\n", encoding="utf-8")
    Path("t.ini").write_text("words = @w@, @w@\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    command = "run --conf=c.json --yaml=c.yaml t.ini"
    engine = engine_of(tmp_path, command, IN_JSON, IN_YAML, IN_TEXT)
    config = engine.baseline().replace({"size": 500, "depth": 3, "words": True})

    files = {file.name: file.content.decode() for file in engine.trial_files(config, OUT, "")}

    assert {"size": "auto", "depth": 2, "words": False} == engine.baseline()
    assert {"z": 1, "a": {"b": 500}} == json.loads(files["c.json"])
    assert "# mine\nx.y: {depth: 3}  # deep\n" == files["c.yaml"]
    assert "words = yes, yes\n" == files["t.ini"]
    assert "run --conf=/out/c.json --yaml=/out/c.yaml /out/t.ini" == launched(engine, command, **config)
    assert ["t.ini"] == [file.name for file in engine.trial_files(engine.baseline(), OUT, "")]
    assert "run --conf=c.json --yaml=c.yaml /out/t.ini" == launched(engine, command)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name in before}


def test_a_placeholder_in_the_command_is_always_filled(tmp_path: Path) -> None:
    """A shell's script can have one."""
    knob = "{name: unroll, type: int, low: 1, high: 16, default: 2, pass: {placeholder: '@u@'}}"
    command = "sh -c 'cc -funroll=@u@ x.c && ./a.out'"
    engine = engine_of(tmp_path, command, knob)

    assert command.replace("@u@", "2") == launched(engine, command)
    assert command.replace("@u@", "8") == launched(engine, command, unroll=8)


def test_a_word_may_be_empty(tmp_path: Path) -> None:
    """A compiler's option is there or not."""
    knob = "{name: native, type: bool, default: false, pass: {placeholder: '@n@', on: -march=native, off: ''}}"
    command = "sh -c 'cc @n@ x.c'"
    engine = engine_of(tmp_path, command, knob)

    assert "sh -c 'cc  x.c'" == launched(engine, command)
    assert "sh -c 'cc -march=native x.c'" == launched(engine, command, native=True)


def test_a_condition_that_does_not_hold_leaves_the_default(tmp_path: Path) -> None:
    """A switch that needs another one goes with it, even if the command has both."""
    needs = "{name: gather, type: bool, pass: {switch: --gather}, when: {overlap: true}}"
    bucket = FLAG.replace("pass:", "when: {overlap: [true]}, pass:")
    simple = "{name: overlap, type: bool, pass: {switch: --overlap}}"

    engine = engine_of(tmp_path, "run", simple, needs, bucket)

    assert "run" == launched(engine, "run", gather=True, bucket=9)
    assert "run --overlap --gather --bucket 9" == launched(engine, "run", overlap=True, gather=True, bucket=9)
    lone = "run --gather x"
    assert lone == launched(engine_of(tmp_path, lone, simple, needs, bucket), lone)
    with pytest.raises(ConfigError, match="--only gather: it has no effect while overlap is not varied; add overlap"):
        engine.space({}, ("gather",))
    both = "run --overlap --gather x"
    assert engine_of(tmp_path, both, simple, needs).space({}, ("gather",)).free
    assert "run x" == launched(engine_of(tmp_path, both, simple, needs, bucket), both, overlap=False)


def test_the_winner_is_ready_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config file, a file of variables, a script that runs the command, and the line to paste."""
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text("{}", encoding="utf-8")
    word = "{name: word, type: choice, choices: [a b, c], pass: {variable: WORD}}"
    engine = engine_of(tmp_path, "echo -c c.json", IN_JSON, word, FLAG)
    config = engine.baseline().replace({"size": 500, "word": "a b", "bucket": 3})

    files = {file.name: file for file in engine.winner_files(config, OUT, "a comment")}

    assert {"a": {"b": 500}} == json.loads(files["c.json"].content)
    assert b"# a comment\nexport WORD='a b'\n" == files["environment.sh"].content
    lines = files["command.sh"].content.decode().splitlines()
    assert ["#!/bin/sh", "# a comment", f"cd {tmp_path} || exit", "export WORD='a b'"] == lines[:4]
    assert ["exec echo -c /out/c.json --bucket 3"] == lines[4:]
    assert files["command.sh"].is_executable
    usage = files["command.sh"].usage.format(path="/out/command.sh")
    assert "/out/command.sh, which runs: WORD='a b' echo -c /out/c.json --bucket 3" == usage


def test_a_winner_in_the_users_folder_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's file stays as it is with `--output .`, too."""
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text("{}", encoding="utf-8")
    engine = engine_of(tmp_path, "run -c c.json", IN_JSON)
    config = engine.baseline().replace({"size": 500})

    files = {file.name: file.content.decode() for file in engine.winner_files(config, tmp_path, "")}

    assert {"tuned-c.json", "command.sh"} == set(files)
    assert f"exec run -c {tmp_path}/tuned-c.json" in files["command.sh"]


@pytest.mark.parametrize(
    ("command", "knob", "said"),
    [
        (
            "run --bucket 1 --bucket=2",
            FLAG,
            "knob bucket: --bucket matches the command 2 times: --bucket 1, --bucket=2; write @bucket@ where",
        ),
        (
            "xz -k -c -f",
            "{name: level, type: int, low: 1, high: 9, pass: {flag: '-{}'}}",
            "-{} matches the command 3 times: -k, -c, -f; write @level@ .* pass: {placeholder: '@level@'}, with a",
        ),
        ("run --bucket", FLAG, "ends with --bucket, without a value"),
        ("bash -lc 'run x'", FLAG, "--bucket at the end of bash -lc would not reach the program inside"),
        ("run", IN_JSON, "the command names no file after --conf or -c; each launch reads a copy in its place"),
        ("run -c none.json", IN_JSON, "none.json, which the command names, cannot be read"),
        ("run -c bad.json", IN_JSON, r"bad.json: its content is no JSON \(.*line 2 column 1.*\); comments are no JSON"),
        ("run -c list.json", IN_JSON, "a.b of list.json is no single value"),
        ("run", "{name: x, type: bool, default: true, pass: {placeholder: '@x@'}}", "the command has no '@x@'"),
        ("run list.json", IN_TEXT.replace("t.ini", "list.json"), "list.json has no '@w@'"),
        ("run", FLAG.replace("pass:", "if_flag: --zero, pass:"), "no knob fits this command: bucket needs --zero"),
        ("run -c list.json", IN_JSON.replace("pass:", "if_key: {s: [1, 2]}, pass:"), "s is 3 in list.json, and size"),
        ("run -c list.json", IN_JSON.replace("pass:", "if_key: {t: 1}, pass:"), "t is missing in list.json, and size"),
    ],
)
def test_a_command_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, knob: str, said: str
) -> None:
    """The message has the target, the fault and a way out."""
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{\n# no\n}", encoding="utf-8")
    Path("list.json").write_text('{"a": {"b": [1]}, "s": 3}', encoding="utf-8")

    with pytest.raises(ConfigError, match=f"--target command: .*{said}"):
        engine_of(tmp_path, command, knob)


def test_any_config_can_be_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random configs of all kinds of knobs give whole commands, files that can be read, and one study each."""
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text("{}", encoding="utf-8")
    Path("c.yaml").write_text("", encoding="utf-8")
    Path("t.ini").write_text("@w@", encoding="utf-8")
    command = "run -c c.json c.yaml t.ini"
    engine = engine_of(tmp_path, command, FLAG, JOINED, SWITCH, VARIABLE, RATE, IN_JSON, IN_YAML, IN_TEXT)
    rng = np.random.default_rng(3)

    for _ in range(100):
        config = engine.effective(engine.space({}).random(rng))
        files = {file.name: file.content.decode() for file in engine.winner_files(config, OUT, "c")}

        assert all(isinstance(word, str) and word for word in engine.command_of(config, OUT, shlex.split(command)))
        assert config["size"] in {"default", json.loads(files.get("c.json", "{}")).get("a", {}).get("b")}
        assert config["depth"] in {
            "default",
            (yaml.safe_load(files.get("c.yaml", "")) or {}).get("x.y", {}).get("depth"),
        }
    other = engine_of(tmp_path, command, FLAG)
    assert isinstance(engine.baseline(), Config)
    assert len({engine.identity, other.identity}) == 2
