# SPDX-License-Identifier: Apache-2.0
"""Bound the largest: lines of a file, lines and paths of a function.

Averages hide giants, so the maximum is bounded, in C++ and Python alike.
"""

import lizard

from tests.house.source_tree import CXX, PYTHON, SourceTree, Violation

FILE_LINES = 400
FUNCTION_LINES = 60
CYCLOMATIC_COMPLEXITY = 10


def long_files(tree: SourceTree) -> list[Violation]:
    """Return the source files of more than 400 lines."""
    found = []
    for path in tree.files(CXX + PYTHON):
        lines = len(tree.text(path).splitlines())
        if lines > FILE_LINES:
            found.append(Violation(path, 0, f"{lines} lines, at most {FILE_LINES}: split it by its reasons to change"))
    return found


def large_functions(tree: SourceTree) -> list[Violation]:
    """Return the functions of more than 60 lines or of a cyclomatic complexity above 10."""
    found = []
    for path in tree.files((*CXX, ".py")):
        for function in lizard.analyze_file(str(tree.root / path)).function_list:
            where = (path, function.start_line)
            if function.length > FUNCTION_LINES:
                message = f"{function.name} has {function.length} lines, at most {FUNCTION_LINES}"
                found.append(Violation(*where, message))
            if function.cyclomatic_complexity > CYCLOMATIC_COMPLEXITY:
                complexity = f"complexity {function.cyclomatic_complexity}, at most {CYCLOMATIC_COMPLEXITY}"
                found.append(Violation(*where, f"{function.name} has {complexity}"))
    return found
