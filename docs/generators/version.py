# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: the site's title has the version that the sources beside it state."""

import ast
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Return the configuration with the version behind the name."""
    source = Path(config.docs_dir).parent / "native" / "python" / "ringtune" / "version.py"
    assigned = (node for node in ast.parse(source.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign))
    version = next(ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "__version__")
    config.site_name = f"{config.site_name} {version}"
    return config
