# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: files outside docs/ that pages link to become pages of the site, and the links lead there.

The links of committed pages work on the files as they are, and the site is complete without a network.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
FOLDER = PurePosixPath("repository")
LANGUAGES = {".py": "python", ".cpp": "cpp", ".h": "cpp", ".yml": "yaml", ".yaml": "yaml", ".json": "json"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for every file of the repository that a page links to, or a page so added."""
    root = Path(config.docs_dir).parent
    waiting = [target for page in files.documentation_pages() for target in _outside(root, page)]
    while waiting:
        path = waiting.pop()
        uri = str(_page_of(path))
        if uri not in files.src_uris:
            text = (root / path).read_text(encoding="utf-8")
            waiting += [target for target in _targets(root, path, text) if not target.is_relative_to("docs")]
            files.append(File.generated(config, uri, content=_content(root, path, text)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Return a committed page's text with the links that leave docs/ leading to the pages made for them."""
    if page.file.generated_by is not None:
        return markdown
    origin = PurePosixPath("docs", page.file.src_uri)
    return _rewritten(Path(config.docs_dir).parent, origin, PurePosixPath(page.file.src_uri), markdown)


def _outside(root: Path, page: File) -> Iterator[PurePosixPath]:
    if page.generated_by is None:
        targets = _targets(root, PurePosixPath("docs", page.src_uri), page.content_string)
        yield from (target for target in targets if not target.is_relative_to("docs"))


def _targets(root: Path, origin: PurePosixPath, text: str) -> list[PurePosixPath]:
    """Return the files of the repository that a text links to, as paths from the root."""
    if origin.suffix != ".md":
        return []
    paths = [_resolved(origin, found[2]) for found in LINK.finditer(text)]
    return [path for path in paths if (root / path).is_file()]


def _resolved(origin: PurePosixPath, link: str) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(origin.parent / link))


def _page_of(path: PurePosixPath) -> PurePosixPath:
    """Return the site's page for a file of the repository."""
    if path.is_relative_to("docs"):
        return path.relative_to("docs")
    return FOLDER / (path if path.suffix == ".md" else path.with_name(f"{path.name}.md"))


def _content(root: Path, path: PurePosixPath, text: str) -> str:
    if path.suffix == ".md":
        return _rewritten(root, path, _page_of(path), text)
    return f"# {path}\n\n`````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n`````\n"


def _rewritten(root: Path, origin: PurePosixPath, page: PurePosixPath, text: str) -> str:
    """Return a text of the file `origin` with links that are right on `page`; links to no file stay as they are."""

    def replaced(found: re.Match[str]) -> str:
        path = _resolved(origin, found[2])
        if not (root / path).is_file():
            return found[0]
        return f"{found[1]}{os.path.relpath(_page_of(path), page.parent)}{found[3]}"

    return LINK.sub(replaced, text)
