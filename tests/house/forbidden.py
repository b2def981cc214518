# SPDX-License-Identifier: Apache-2.0
"""Keep out patterns that the house forbids: code from data, hidden state, vague names, other machines' facts."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.source_tree import CXX, PYTHON, SourceTree, Violation

SPDX = "SPDX-License-Identifier: Apache-2.0"
LICENSED = (*CXX, *PYTHON, ".txt", ".cmake", ".toml", ".sh")
LICENCE_TEXTS = Path("native/licenses")  # other projects' own words, kept as they are
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})
CODE_FROM_DATA = frozenset({"pickle", "cloudpickle", "dill", "marshal", "shelve", "eval", "exec"})
MUTABLE_CALLS = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"})
# Split so that this file does not name what it looks for.
REGISTRY_HOST = re.compile("|".join(("py" + r"pi\.org", "pythonhosted" + r"\.org", "download" + r"\.pytorch\.org")))
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:home|root|work|opt|Users)/[\w.-]+")
SECOND_PEER_RULE = re.compile("|".join((r"\bget" + r"uid\b", "SO_PEER" + "CRED")))
PEER_RULE = Path("native/python/ringtune/meeting/rendezvous/peer_process.py")
CXX_GLOBAL = re.compile(
    r"^\s*(?:static|thread_local|extern)\s+(?!.*\b(?:const|constexpr|constinit)\b)[\w:<>,\s*&]+?\s\w+\s*(?:=|\{|;)"
)


def missing_licences(tree: SourceTree) -> list[Violation]:
    """Return the source files whose first three lines have no SPDX line."""
    return [
        Violation(path, 1, f"has no line '{SPDX}'")
        for path in tree.files(LICENSED)
        if not path.is_relative_to(LICENCE_TEXTS) and SPDX not in "\n".join(tree.text(path).splitlines()[:3])
    ]


def vague_names(tree: SourceTree) -> list[Violation]:
    """Return files and folders named for no thing: utils, helpers, common."""
    return [
        Violation(path, 0, "is named for no thing: say what is in it")
        for path in tree.files()
        if VAGUE_NAMES & {Path(part).stem for part in path.parts}
    ]


def code_from_data(tree: SourceTree) -> list[Violation]:
    """Return uses of pickle and its kin, and of eval and exec: data that runs as code."""
    found = []
    for path in tree.files(PYTHON):
        for node in ast.walk(ast.parse(tree.text(path))):
            line = getattr(node, "lineno", 0)
            found += [
                Violation(path, line, f"{name} runs data as code") for name in _named(node) if name in CODE_FROM_DATA
            ]
    return found


def facts_of_a_machine(tree: SourceTree) -> list[Violation]:
    """Return the absolute paths of one machine and the package registries' host names in any text file."""
    found = []
    for path in tree.files():
        try:
            lines = tree.text(path).splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            match = REGISTRY_HOST.search(line) or MACHINE_PATH.search(line)
            if match:
                found.append(Violation(path, number, f"names '{match[0]}', a fact of one machine or registry"))
    return found


def mutable_globals(tree: SourceTree) -> list[Violation]:
    """Return the state that outlives its owner: rebound, mutable or mutated names at module or namespace scope."""
    found = []
    for path in tree.files((".py",)):
        module = ast.parse(tree.text(path))
        found += [Violation(path, line, message) for line, message in _python_globals(module)]
    for path in tree.files(CXX):
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            if CXX_GLOBAL.match(line):
                found.append(Violation(path, number, "is mutable state with static storage"))
    return found


def second_peer_rules(tree: SourceTree) -> list[Violation]:
    """Return the places that ask for a peer's user, or for this process's real user, beside the one rule."""
    return [
        Violation(path, number, f"decides by itself who is the same user; {PEER_RULE} does, on effective ids")
        for path in tree.files((*PYTHON, *CXX))
        if path != PEER_RULE
        for number, line in enumerate(tree.text(path).splitlines(), start=1)
        if SECOND_PEER_RULE.search(line)
    ]


def _named(node: ast.AST) -> list[str]:
    """Return the top-level modules that a statement imports, or the bare name that an expression calls."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [node.func.id]
    return []


def _python_globals(module: ast.Module) -> Iterator[tuple[int, str]]:
    for statement in module.body:
        for name in _mutable_names(statement):
            yield statement.lineno, f"{name} is a mutable global"
    constants = {name.id for name in ast.walk(module) if isinstance(name, ast.Name) and name.id.isupper()}
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            yield node.lineno, f"rebinds global {', '.join(node.names)}"
        mutated = _mutated_name(node)
        if mutated in constants:
            yield getattr(node, "lineno", 0), f"changes the constant {mutated}"


def _mutable_names(statement: ast.stmt) -> list[str]:
    """Return the names, constants left out, that a module-level statement binds to something mutable."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or not _is_mutable(statement.value):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name != "__all__" and not name.isupper()]


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in MUTABLE_CALLS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _mutated_name(node: ast.AST) -> str | None:
    """Return X for `X[...] = ...` and `X.append(...)` and the like."""
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Name)
    ):
        return node.value.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        changes = {"append", "add", "update", "setdefault", "pop", "clear", "extend", "insert", "remove"}
        return node.func.value.id if node.func.attr in changes else None
    return None
