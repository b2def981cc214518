# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: a page for each public package, which mkdocstrings fills from docstrings without an import."""

import ast
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PACKAGES = (
    "ringtune",
    "ringtune.torch",
    "ringtune.torch.elastic",
    "ringtune.arrays",
    "ringtune.jax",
    "ringtune.tensorflow",
    "ringtune.keras",
    "ringtune.keras.callbacks",
    "ringtune.ddp",
    "ringtune.fsdp",
    "ringtune.ray",
    "ringtune.spark",
    "ringtune.tuner",
    "ringtune.tuner.simulator",
    "ringtune.callbacks",
    "ringtune.client",
    "ringtune.launch_tuning",
    "ringtune.errors",
)


SOURCES = Path("native", "python")
HEADED = "\n    options:\n      show_root_heading: true\n      show_root_full_path: false\n"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages."""
    sources = Path(config.docs_dir).parent / SOURCES
    for package in PACKAGES:
        hidden = "".join(f"\n::: {name}{HEADED}" for name in _hidden_by_modules(sources, package))
        content = f"# `{package}`\n\n::: {package}\n{hidden}"
        files.append(File.generated(config, f"reference/python/{package}.md", content=content))
    return files


def _hidden_by_modules(sources: Path, package: str) -> Iterator[str]:
    """Yield the functions that share their name with their module; mkdocstrings shows the module in place of them."""
    path = sources.joinpath(*package.split("."), "__init__.py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else ():
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from (f"{package}.{node.module}.{a.name}" for a in node.names if a.name == node.module)
