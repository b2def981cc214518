# SPDX-License-Identifier: Apache-2.0
"""Hostile names, and a log in which everything bears one."""

import json
from pathlib import Path

from tests.unit.tuner.review.logs import logged

VECTORS = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "' onmouseover='window.hacked=1",
    "<a href='javascript:window.hacked=1'>x</a>",
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
    "<!--<script>",
    "]]><script>window.hacked=1</script>",
    "\u2028window.hacked=1//",
    "javascript:window.hacked=1",
    "&lt;script&gt;",
    "<style>*{display:none}</style>",
    "<iframe srcdoc='<script>1</script>'>",
    "\ud800<script>",
    "<base href='http://x/'>",
    "<meta http-equiv=refresh content='0;url=http://x/'>",
    "%3Cscript%3E",
    "<details open ontoggle=window.hacked=1>",
)
HOSTILE_COUNT = 500


def hostile_log(path: Path, names: list[str]) -> None:
    """Write a log in which all names are values of parameters, and models, runs and parameters are named by some."""
    template = path.with_name("template.jsonl")
    logged(template, max_samples=4, adoption_pairs=2)
    records = [json.loads(line) for line in template.read_text().splitlines()]
    config = {f"p{index}": name for index, name in enumerate(names)}
    for number, record in enumerate(records):
        record["run_id"] = names[0]
        if "config" in record:
            record["config"] = {**record["config"], **config, names[5]: names[6 + number]}
        if record["type"] == "run":
            record |= {"model_name": names[1], "baseline": {**record["baseline"], **config, names[5]: names[6]}}
            record["key"] = {"target": names[2]}
        if record["type"] == "suggestion":
            record["designer"] = names[3]
        if record["type"] == "adoption":
            record["verdict"] = names[4]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def hostile_names() -> list[str]:
    """Return 500 hostile strings: the vectors, bare and wrapped in characters that might end their context."""
    wraps = [
        f"{before}{{}}{after}" for before in ("", '"', "'>", "-->", "\\") for after in ("", '"', "<!--", "\x00", "`")
    ]
    names = [wrap.replace("{}", vector) for wrap in wraps for vector in VECTORS]
    assert HOSTILE_COUNT == len(names) == len(set(names))
    return names
