# SPDX-License-Identifier: Apache-2.0
"""Texts open with their subject: docstrings, constants, arguments, options, C++ declarations, documents.

A text that opens with "Of", "What" or "So" has lost its subject or makes a noun of a clause.
`python -m tests.house.prose [FOLDER...]` lists such texts.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.house.source_tree import CXX, PYTHON, REPOSITORY, SourceTree, Violation

NOUN_CLAUSES = frozenset(
    "what whatever which whichever who whoever whom whose how why whether of so than".split()  # noqa: SIM905 - reads as a list of words
)
"""Openings barred everywhere: they make a noun of a clause, or have lost their subject."""
FRAGMENTS = NOUN_CLAUSES | frozenset(
    ("and", "as", "by", "from", "it", "nor", "that", "they", "under", "where", "wherever", "with")
)
"""Openings barred from docstrings, constants and options; documents may open with "As" or "With" and a clause."""

FIRST_WORD = re.compile(r"[\s*_(\[\"'“]*([A-Za-z]+)")
DESCRIPTION = re.compile(r"^ {4}(?:\*{0,2}\w+)(?: \([^)]*\))?: (\S.*)$")
SECTION = re.compile(r"^(Args|Attributes|Keyword Args|Other Parameters):$")
TRAILING = re.compile(r"#\s*(?!noqa|type:|pragma)(\S.*)")
CXX_BLOCK = re.compile(r"^\s*///?\s*(\S.*)$")
CXX_TRAILING = re.compile(r"[;,{]\s*//\s*(\S.*)$")
CXX_STATEMENT = re.compile(r"^\s*(?:#|\}|if|for|while|switch|return|case|else|try|do)\b|^\s*[}#]")
FENCE = re.compile(r"^\s*(```|~~~)")
NO_PARAGRAPH = re.compile(r"^\s*(?:#|\||<|\[\^|!!!|!\[|\d+ |$)")
NAME = re.compile(r"[\[*`]")
"""Beginning of a title or a run-in heading, which may be a question: "[How it decides](how_it_decides.md)"."""
LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) +")


def fragments(tree: SourceTree) -> list[Violation]:
    """Return the texts that open with a fragment."""
    found = []
    for path in tree.files((*PYTHON, *CXX, ".md")):
        text = tree.text(path)
        if path.suffix in PYTHON:
            openings = _python_texts(text)
        else:
            openings = _cxx_comments(text, path) if path.suffix in CXX else _paragraphs(text)
        words = NOUN_CLAUSES if path.suffix == ".md" else FRAGMENTS
        for line, opening in openings:
            first = FIRST_WORD.match(opening)
            if first and first[1].lower() in words and not _is_question(opening):
                found.append(Violation(path, line, f"opens with '{first[1]}', not with its subject: {opening[:70]}"))
    return found


def _is_question(opening: str) -> bool:
    return opening.rstrip().endswith("?")


def _python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and first line of docstrings, descriptions of arguments, constants and options."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                start = node.body[0].lineno
                yield start, docstring.partition("\n")[0]
                for offset, description in _descriptions(docstring):
                    yield start + offset, description
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from _constants(node, lines)
        if isinstance(node, ast.Call):
            yield from _options(node)


def _descriptions(docstring: str) -> Iterator[tuple[int, str]]:
    """Yield offset and text of each entry of a docstring under "Args:" and its like.

    "Whether" is the field's word for an argument that is a boolean.
    """
    is_section = False
    for offset, line in enumerate(docstring.splitlines()):
        if line and not line.startswith(" "):
            is_section = SECTION.match(line) is not None
        described = DESCRIPTION.match(line) if is_section else None
        if described and not described[1].startswith("Whether "):
            yield offset, described[1]


def _constants(scope: ast.Module | ast.ClassDef, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the string below each assignment of a module or class, and the comment behind it."""
    for statement, following in pairwise([*scope.body, None]):
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        last_line, last_column = statement.end_lineno or 0, statement.end_col_offset or 0
        comment = TRAILING.search(lines[last_line - 1].encode()[last_column:].decode())
        if comment:
            yield last_line, comment[1]
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            yield following.lineno, str(following.value.value).strip().partition("\n")[0]


def _options(call: ast.Call) -> Iterator[tuple[int, str]]:
    """Yield the help texts and descriptions of fields among the arguments of a call."""
    for keyword in call.keywords:
        is_text = isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
        if keyword.arg in {"description", "help", "summary"} and is_text:
            yield keyword.value.lineno, ast.literal_eval(keyword.value)


def _cxx_comments(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments above and behind declarations: all in a header, those at namespace scope elsewhere."""
    lines = source.splitlines()
    for number, (before, line) in enumerate(pairwise(["", *lines]), start=1):
        if line.startswith(" ") and path.suffix != ".h":
            continue
        block = CXX_BLOCK.match(line)
        trailing = None if block else CXX_TRAILING.search(line)
        if block and "//" not in before and _is_declared(lines[number:]):
            yield number, block[1]
        if trailing:
            yield number, trailing[1]


def _is_declared(lines: list[str]) -> bool:
    """Return whether the first line that is no comment declares something, rather than doing something."""
    code = next((line for line in lines if not CXX_BLOCK.match(line)), "")
    return bool(code.strip()) and not CXX_STATEMENT.match(code)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and first line of each paragraph and each capitalised list item of a document."""
    is_code, previous = False, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code and not NO_PARAGRAPH.match(line):
            item = LIST_ITEM.match(line)
            opening = line[item.end() :] if item else line.strip()
            if (item or not previous.strip()) and not opening[:1].islower() and not NAME.match(opening):
                yield number, opening
        previous = line


def main() -> None:
    """List the fragments below the folders given, or all."""
    parser = argparse.ArgumentParser(description="List texts that do not open with their subject.")
    parser.add_argument("folders", nargs="*", default=[""], help="folders or files to list, relative to the repository")
    arguments = parser.parse_args()
    found = fragments(SourceTree(REPOSITORY))
    for violation in found:
        if any(not folder or violation.path.is_relative_to(folder) for folder in arguments.folders):
            print(violation)  # noqa: T201 - the listing is what was asked for


if __name__ == "__main__":
    main()
