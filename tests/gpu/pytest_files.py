# SPDX-License-Identifier: Apache-2.0
"""Runs the pytest files of this folder, whose ranks are torch.distributed's, and returns lines for the table."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.gpu.jobs import Row

FOLDER = Path(__file__).resolve().parent
FILES = ("test_ddp_gpu", "test_nccl_plugin_gpu")
DEADLINE_S = 240.0
# The options of pyproject.toml are for the project's own environment, with plugins that a bare machine lacks.
OPTIONS = ("-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider", "-q", "-s")


def run_file(name: str, folder: Path, environ: Mapping[str, str]) -> tuple[list[Row], str]:
    """Run a file to its end or to its deadline.

    Args:
        name: The file, without its suffix.
        folder: Folder of pytest's files.
        environ: Finds ringtune.

    Returns:
        A line per test, and the whole output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", *OPTIONS, f"--junitxml={results}", f"--basetemp={folder / name}"]
    try:
        done = subprocess.run(
            [*command, str(FOLDER / f"{name}.py")],
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=DEADLINE_S,
        )
    except subprocess.TimeoutExpired as error:
        text = (error.stdout or b"").decode(errors="replace")
        return [Row(name, "the file ends in time", "FAILED", DEADLINE_S, {}, text[-3000:])], text
    text = done.stdout.decode(errors="replace")
    if not results.is_file():
        return [Row(name, "pytest runs", "FAILED", 0.0, {}, text[-3000:])], text
    return [_row(name, case) for case in ET.parse(results).iter("testcase")], text


def _row(name: str, case: ET.Element) -> Row:
    bad = next((part for kind in ("failure", "error") for part in case.iter(kind)), None)
    skipped = next(case.iter("skipped"), None)
    figures = {part.get("name", ""): part.get("value", "") for part in case.iter("property")}
    status = "FAILED" if bad is not None else "below" if skipped is not None else "ok"
    if skipped is not None:
        figures["not run"] = skipped.get("message", "")
    error = "" if bad is None else f"{bad.get('message', '')}\n{bad.text or ''}"
    check = case.get("name", "").removeprefix("test_").replace("_", " ")
    return Row(name, check, status, round(float(case.get("time", 0.0)), 1), figures, error)
