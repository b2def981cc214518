# SPDX-License-Identifier: Apache-2.0
"""The tutorial and the how-to pages can be followed: their commands run, in order, as they are written."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from job import OURS
from ringtune.cli import app
from ringtune.tuner import RunSettings, SilentObserver, TuningRun, make_designer, open_log
from ringtune.tuner.simulator import Cluster, SimulatedTarget, described_job, parse_link
from tests.e2e.documented_commands import Block, blocks_of, file_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.integration.forked_services import preloaded_ringtune
from tests.integration.jobs import preloaded_python
from tests.integration.ports import free_port

DOCS = REPOSITORY / "docs"
HOWTO = DOCS / "howto"
TUTORIAL = DOCS / "tutorial.md"
HOWTO_PAGES = tuple(sorted(HOWTO.glob("*.md")))
BY_HAND = frozenset({"mpi"})
"""These need an environment with torch and an MPI."""
LONG_PAGES = (TUTORIAL, *(page for page in HOWTO_PAGES if page.stem not in BY_HAND))
SHORT_PAGES = tuple(p for p in HOWTO_PAGES if any((b.duty, b.about) == ("run", "") for b in blocks_of(p)))
WRITTEN_PORT = "8470"
SERVE = "ringtune serve"
SHORTER = {
    "AUTOTUNE_MAX_SAMPLES=12": "AUTOTUNE_MAX_SAMPLES=3",
    "AUTOTUNE_STEPS_PER_SAMPLE=35": "AUTOTUNE_STEPS_PER_SAMPLE=5",
    "examples/digits.py": "examples/digits.py --depth 6",
}
"""Replacements for the short form of a page, so that its jobs end within seconds."""
CALLING = ("ringtune ", "AUTOTUNE", "RINGTUNE_", "HOROVOD_")
ASSIGNMENT = re.compile(r"[A-Z_]+=")
SHORT_S, LONG_S = 600.0, 900.0
KEY = {"hardware": "a" * 64, "model": "b" * 64, "layout": [2], "target": "ringtune", "surface_version": 1}


def write_log(path: Path) -> None:
    """Write the log of a tuning run on a simulated cluster."""
    target = SimulatedTarget(described_job("resnet50", None), Cluster(1, 2, 4, parse_link("10gbit")), seed=1)
    log = open_log(path)
    settings = RunSettings(run_id="simulated", model_name="resnet50", max_samples=6, key=KEY)
    designer = make_designer("random", target.space(), 0)
    TuningRun(target, designer, settings, log, SilentObserver(), clock=lambda: target.now_s).run()
    log.close()


def prepare(folder: Path, page: Path) -> None:
    """Lay out the files that the page's commands find: the examples, the build folder, and those it shows or takes."""
    (folder / "build").mkdir()
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    for block in blocks_of(page):
        if block.duty == "file":
            (folder / block.about).write_text(block.text, encoding="utf-8")
        elif block.duty == "given":
            name, _, origin = block.about.partition(" of ")
            if origin.endswith(".md"):
                (folder / name).write_text(file_of(page.parent / origin, name), encoding="utf-8")
            else:
                write_log(folder / name)


def follow(folder: Path, page: Path, *, is_long: bool) -> subprocess.CompletedProcess[str]:
    """Run a page's commands in a folder of their own, on a port of their own; never raises on their failure.

    In the short form `python` and `ringtune` have imported their modules: else most of the time would go into that.
    """
    prepare(folder, page)
    port = str(free_port())
    script = (
        script_of(blocks_of(page), ("", "long") if is_long else ("",))
        .replace(WRITTEN_PORT, port)
        .replace(SERVE, f"{SERVE} --port {port}")
    )
    for written, instead in {} if is_long else SHORTER.items():
        script = script.replace(written, instead)
    others = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    python = folder / "bin" / "python"
    variables = {
        **others,
        "PATH": os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "AUTOTUNE_LOCK": str(folder / "tuning.lock"),
        "XDG_DATA_HOME": str(folder / "data"),
        "RINGTUNE_ALGORITHM_TABLE": "default",
    }
    if not is_long:
        python.parent.mkdir()
        variables |= {"AUTOTUNE_WARMUP_STEPS": "10", "PYTHON_EXEC": str(python), **preloaded_python(python)}
        preloaded_ringtune(python.with_name("ringtune"), python)
    limit_s = LONG_S if is_long else SHORT_S
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=variables, capture_output=True, text=True, timeout=limit_s, check=False
    )


@pytest.mark.timeout(SHORT_S + 30)
@pytest.mark.parametrize("page", SHORT_PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(tmp_path: Path, page: Path) -> None:
    """The commands run from top to bottom with a small tuner budget; those that take minutes are left out."""
    done = follow(tmp_path, page, is_long=False)

    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(LONG_S + 60)
@pytest.mark.parametrize("page", LONG_PAGES, ids=lambda page: page.stem)
def test_all_commands_of_a_page_run_as_written(tmp_path: Path, page: Path) -> None:
    """The port of the service is all that differs."""
    done = follow(tmp_path, page, is_long=True)

    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(SHORT_S + 30)
def test_the_tutorial_ends_with_what_it_shows(tmp_path: Path) -> None:
    """A log with a verdict, a report, and a service that has an answer: on a busy machine that may be the default."""
    done = follow(tmp_path, TUTORIAL, is_long=False)

    assert 2 == done.stderr.count("ringtune autotune: adopted") + done.stderr.count("ringtune autotune: keeping")
    assert "measured on ringtune" in done.stdout or "the newest verdict on this key" in done.stdout, done.stdout
    assert (tmp_path / "build" / "review.html").stat().st_size > 1_000_000


def documented(language: str) -> list[tuple[Path, Block]]:
    """Return the blocks in a language of all pages, those of reference and explanation included."""
    pages = sorted(path for path in DOCS.rglob("*.md"))
    return [(page, block) for page in pages for block in blocks_of(page) if block.language == language]


def test_every_block_of_python_is_python() -> None:
    """Blocks that are only shown are parsed, too."""
    blocks = documented("python")

    assert len(blocks) > 10
    for page, block in blocks:
        ast.parse(block.text, filename=str(page))


def shown_calls() -> list[tuple[str, list[str]]]:
    """Return the calls of `ringtune` in the blocks of all pages: where they stand, and their words."""
    calls = []
    for page, block in documented("sh") + documented(""):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if line.lstrip().startswith(CALLING) else []
            while words and ASSIGNMENT.match(words[0]):
                words.pop(0)
            if words and words[0] == "ringtune":
                end = next((n for n, word in enumerate(words) if word in {"|", ">", "&&", "&"}), len(words))
                calls.append((f"{page.name}: {line}", words[1:end]))
    return calls


def test_every_call_that_is_shown_is_one_that_the_command_line_takes() -> None:
    """Commands exist, and so do their options; also where a block is not run."""
    calls = shown_calls()

    assert len(calls) > 20
    for place, words in calls:
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            name = words.pop(0)
            assert name in command.commands, place
            command = command.commands[name]
        try:
            command.make_context("ringtune", words)
        except Exception as error:  # noqa: BLE001  (typer's usage errors share no public class)
            pytest.fail(f"{place}: {error}")
