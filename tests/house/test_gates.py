# SPDX-License-Identifier: Apache-2.0
"""Each gate detects breaches of its rule, and only these: it is run on a tree made bad on purpose."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house import (
    documentation,
    environment_reads,
    folders,
    forbidden,
    lock_files,
    native_layers,
    one_caller,
    prose,
    sizes,
    vague_words,
)
from tests.house.source_tree import SourceTree, Violation

Gate = Callable[[SourceTree], list[Violation]]

LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
NATIVE_TABLE = (
    "| layer of `native/src` | may include |\n|---|---|\n| base | nothing |\n| wire | base |\n| wire/gpu | base |\n"
    "| engine | wire/gpu |\n"
)
OF_A_WINDOW = "Of a window."
ARGUMENT = 'def f(x):\n    """Do.\n\n    Args:\n        x: {}\n    """\n'
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 60
BRANCHES = "def f(x):\n" + "".join(f"    if x == {n}:\n        return {n}\n" for n in range(10))
PAGE = "docs/reference/environment.md"
VARIABLE_ROWS = "| `AUTOTUNE_LOG` | |\n| `RINGTUNE_CYCLE_MS` | |\n"

PROJECT = """\
[build-system]
requires = []
[project]
name = "ringtune"
dependencies = ["numpy>=2"]
[project.optional-dependencies]
service = ["fastapi>=0.165,<1"]
lint = []
test = ["ringtune[service]", "torch==2.13.0"]
test-tensorflow = []
test-platforms = []
[dependency-groups]
pip = []
build = []
wheels = []
audit = []
deepspeed = []
mpich = []
mxnet = []
openmpi = []
"""
SERVICE_LOCK = "requirements/service.txt"
HASH = " \\\n    --hash=sha256:0a\n"
NUMPY_LOCK = f"numpy==2.4{HASH}"
GOOD_LOCK = f"{NUMPY_LOCK}fastapi==0.165.1{HASH}"

# gate, file, text that breaks the rule, text that keeps it
CASES: tuple[tuple[Gate, str, str, str], ...] = (
    (sizes.long_files, "a.py", "x = 1\n" * 401, "x = 1\n" * 400),
    (sizes.long_files, "a.cpp", "\n" * 401, "\n" * 400),
    (sizes.large_functions, "a.py", LONG_FUNCTION, "def f():\n    return 1\n"),
    (sizes.large_functions, "a.py", BRANCHES, "def f(x):\n    return 1 if x else 2\n"),
    (sizes.large_functions, "a.cpp", "int f() {\n" + "  g();\n" * 60 + "}\n", "int f() { return 1; }\n"),
    (native_layers.include_violations, "native/src/base/a.h", '#include "wire/b.h"\n', '#include "base/b.h"\n'),
    (native_layers.include_violations, "native/src/wire/gpu/a.h", '#include "wire/b.h"\n', '#include "base/b.h"\n'),
    (
        native_layers.include_violations,
        "native/src/engine/a.h",
        '#include "wire/gpu/deep/b.h"\n',
        '#include "wire/gpu/b.h"\n',
    ),
    (native_layers.include_violations, "native/src/odd/a.h", "", ""),
    (
        environment_reads.environment_violations,
        "tuner/a.py",
        "import os\nos.environ['A']\n",
        "import os\nos.getpid()\n",
    ),
    (environment_reads.environment_violations, "tuner/a.py", "from os import getenv\n", "from os import getpid\n"),
    (forbidden.missing_licences, "a.py", "x = 1\n", LICENCE),
    (forbidden.missing_licences, "a.h", "int x;\n", "// SPDX-License-Identifier: Apache-2.0\n"),
    (forbidden.vague_names, "tuner/utils.py", "", ""),
    (forbidden.vague_names, "common/ring.py", "", ""),
    (forbidden.code_from_data, "a.py", "import pickle\n", "import json\n"),
    (forbidden.code_from_data, "a.py", "from cloudpickle import loads\n", "from json import loads\n"),
    (forbidden.code_from_data, "a.py", "x = " + "eval('1')\n", "model.eval()\n"),
    (forbidden.facts_of_a_machine, "a.md", "see /ho" + "me/ada/x\n", "see build/x, https://host/home/x, $HOME/x\n"),
    (forbidden.facts_of_a_machine, "a.toml", "index = 'https://py" + "pi.org/simple'\n", "index = none\n"),
    (forbidden.mutable_globals, "a.py", "cache = {}\n", "TABLE = {}\n"),
    (forbidden.mutable_globals, "a.py", "x = 1\ndef f():\n    global x\n", "def f():\n    x = 1\n"),
    (forbidden.mutable_globals, "a.py", "T = {}\ndef f():\n    T[1] = 2\n", "def f(t):\n    t[1] = 2\n"),
    (forbidden.mutable_globals, "a.py", "T = []\ndef f():\n    T.append(1)\n", "def f(t):\n    t.append(1)\n"),
    (forbidden.mutable_globals, "a.cpp", "static int count = 0;\n", "static const int kCount = 0;\n"),
    (forbidden.mutable_globals, "a.cpp", "thread_local std::string name;\n", "static int count(int x);\n"),
    (forbidden.second_peer_rules, "a.py", "owner == os.get" + "uid()\n", "owner == os.geteuid()\n"),
    (forbidden.second_peer_rules, "a.cpp", "f(SO_PEER" + "CRED);\n", "f(SO_PASSCRED);\n"),
    (documentation.variable_violations, PAGE, "| `AUTOTUNE_LOG` | |\n", VARIABLE_ROWS),
    (documentation.variable_violations, PAGE, VARIABLE_ROWS + "| `AUTOTUNE_ODD` | |\n", VARIABLE_ROWS),
    (documentation.knob_violations, PAGE, "| `other` | |\n", "| `cycle_ms` | |\n"),
    (documentation.long_pages, "README.md", "x\n" * 96, "x\n" * 95),
    (documentation.long_pages, "docs/architecture.md", "x\n" * 116, "x\n" * 115),
    (prose.fragments, "a.py", '"""What a job does."""\n', '"""A job."""\n'),
    (prose.fragments, "a.py", 'def f():\n    """By rank."""\n', 'def f():\n    """Sort by rank."""\n'),
    (prose.fragments, "a.py", f'X = 1\n"""{OF_A_WINDOW}"""\n', f'X = 1\n"""Share {OF_A_WINDOW.lower()}"""\n'),
    (prose.fragments, "a.py", "X = 1  # of a window\n", "X = 1  # share of a window\n"),
    (prose.fragments, "a.py", "class C:\n    x: int  # so many bytes\n", "class C:\n    x: int  # bytes\n"),
    (prose.fragments, "a.py", ARGUMENT.format("Of a window."), ARGUMENT.format("Share of a window.")),
    (prose.fragments, "a.py", ARGUMENT.format("How it ends."), ARGUMENT.format("Whether it ends.")),
    (prose.fragments, "a.py", 'option(help="Where it is.")\n', 'option(help="Its folder.")\n'),
    (prose.fragments, "a.py", 'Field(description="Of a log.")\n', 'Field(description="Bytes of a log.")\n'),
    (prose.fragments, "a.h", "// What it holds.\nint x;\n", "// Bytes it holds.\n// What is more: few.\nint x;\n"),
    (prose.fragments, "a.cpp", "int x;  // of a rank\n", "int x;  // bytes of a rank\n"),
    (prose.fragments, "a.cpp", "// So it ends.\nint f();\n", "int f() {\n  // So it ends.\n  return 1;\n}\n"),
    (
        prose.fragments,
        "a.md",
        "# A\n\nWhat it does.\n",
        "# What it does\n\nWith two ranks it runs.\nWhat for? Speed.\n",
    ),
    (prose.fragments, "a.md", "- Of two\n  ranks.\n", "- two ranks,\n\n```\nWhat\n```\n"),
)
VAGUE_TEXT = "{} a job reports, and {} it says."
CASES += (
    (vague_words.ceilings_exceeded, "service/a.py", f'"""{VAGUE_TEXT.format("What", "what")}"""\n', '"""Reports."""\n'),
    (vague_words.ceilings_exceeded, "odd/a.py", 'A = 1\n"""Nothing.\n\nNobody."""\n', '"""Nothing."""\n'),
    (vague_words.ceilings_exceeded, "native/src/a.h", "// Nothing of it.\nint x;  // for nobody\n", "// Nothing.\n"),
)
MOST = one_caller.CEILINGS["tuner"]
SHORT = "def _f{}():\n    return 1\n_f{}()\n"
SHORTS, TOO_MANY = ("".join(SHORT.format(n, n) for n in range(number)) for number in (MOST, MOST + 1))
LONG = "def _g():\n" + "    x = 1\n" * (one_caller.SHORT + 1) + "_g()\n"
CASES += (
    (one_caller.ceilings_exceeded, "tuner/a.py", TOO_MANY, SHORTS + LONG),
    (one_caller.ceilings_exceeded, "tuner/a.py", TOO_MANY, TOO_MANY + "_f0()\n"),
    (one_caller.ceilings_exceeded, "tuner/a.py", TOO_MANY, TOO_MANY.replace("def _f0", "@property\ndef _f0")),
)
TEST_IMPORT = "from tests.unit.test_a import X\n"
MAIN = 'if __name__ == "__main__":\n    main()\n'
CASES += (
    (folders.test_imports, "tests/unit/test_b.py", TEST_IMPORT, "from tests.unit.a import X\n"),
    (folders.test_imports, "tests/unit/b.py", f'SCRIPT = """\n{TEST_IMPORT}"""\n', "from tests.unit.a import x\n"),
    (folders.benchmark_folders, "benchmarks/tuner/a.py", "x = 1\n", MAIN),
    (folders.benchmark_folders, "benchmarks/engine/ranks/a.py", "x = 1\n", MAIN),
    (folders.benchmark_folders, "benchmarks/engine/ranks/b/a.py", "x = 1\n", MAIN),
    (folders.benchmark_folders, "benchmarks/service/load/ranks/a.py", "x = 1\n", MAIN),
    (folders.benchmark_folders, "benchmarks/a.py", MAIN, ""),
    (folders.benchmark_folders, "benchmarks/odd/a.py", MAIN, ""),
)
NEW_MAJOR = GOOD_LOCK.replace("fastapi==0.165.1", "fastapi==1.0")
CASES += (
    (lock_files.lock_violations, SERVICE_LOCK, GOOD_LOCK.replace(HASH, "\n"), GOOD_LOCK),
    (lock_files.lock_violations, SERVICE_LOCK, NEW_MAJOR, GOOD_LOCK),
    (lock_files.lock_violations, SERVICE_LOCK, GOOD_LOCK.replace("numpy", "numpyro"), GOOD_LOCK),
    (lock_files.lock_violations, SERVICE_LOCK, GOOD_LOCK + f"torch==2.13.0{HASH}", GOOD_LOCK),
    (
        lock_files.lock_violations,
        SERVICE_LOCK,
        GOOD_LOCK + f"left==1{HASH}    # via {lock_files.ASKED_FOR})\n",
        GOOD_LOCK,
    ),
    (
        lock_files.lock_violations,
        SERVICE_LOCK,
        GOOD_LOCK.replace("numpy==2.4", "numpy==2.4 ; python_full_version < '3.12'"),
        GOOD_LOCK.replace("numpy==2.4", "numpy==2.4 ; python_full_version < '3.15'"),
    ),
)
SURROUNDINGS = {
    "native/python/ringtune/settings/settings.py": 'LOG = "AUTOTUNE_LOG"\n',
    "tuner/space/parameters.py": 'NumberParameter("cycle_ms", 0.05)\n',
    "native/python/ringtune/errors.py": "",
}
NAMED_WRONGLY = {"native/src/odd/a.h", "tuner/utils.py", "common/ring.py"}
NAMED_WRONGLY |= {"benchmarks/a.py", "benchmarks/odd/a.py"}


def tree_with(root: Path, files: dict[str, str]) -> SourceTree:
    """Write the files below the root and return the tree."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return SourceTree(root)


def surroundings_of(gate: Gate) -> dict[str, str]:
    """Return the files that must surround the file under test for the gate to run at all."""
    if gate in {documentation.variable_violations, documentation.knob_violations}:
        return SURROUNDINGS
    if gate == native_layers.include_violations:
        return {"docs/architecture.md": NATIVE_TABLE}
    if gate == lock_files.lock_violations:
        locks = dict.fromkeys((f"requirements/{name}.txt" for name in lock_files.GROUPS), "")
        locks |= dict.fromkeys(
            (f"requirements/{name}.txt" for name in lock_files.LOCKS if name not in locks), NUMPY_LOCK
        )
        return {**locks, "pyproject.toml": PROJECT, "requirements/development.txt": GOOD_LOCK}
    return {}


@pytest.mark.parametrize(("gate", "name", "bad", "good"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_a_gate_names_the_file_that_breaks_its_rule(tmp_path: Path, gate: Gate, name: str, bad: str, good: str) -> None:
    """The violation names the bad file; the same file with the rule kept passes."""
    around = surroundings_of(gate)

    on_bad = gate(tree_with(tmp_path / "bad", {**around, name: bad}))
    on_good = gate(tree_with(tmp_path / "good", {**around, name: good}))

    assert {Path(name)} == {violation.path for violation in on_bad}
    assert name in NAMED_WRONGLY or [] == on_good


def test_two_pages_of_one_name_are_two_answers_to_one_question(tmp_path: Path) -> None:
    """The second page is named; pages of other names and files elsewhere are not."""
    pages = dict.fromkeys(("docs/mpi.md", "docs/howto/mpi.md", "docs/howto/ddp.md", "native/mpi.md"), "# MPI\n")

    found = documentation.twin_pages(tree_with(tmp_path, pages))

    assert [Path("docs/mpi.md")] == [violation.path for violation in found]


def test_texts_of_other_licences_need_no_line_of_ours(tmp_path: Path) -> None:
    """Texts of other licences are kept as their authors wrote them."""
    tree = tree_with(tmp_path, {"native/licenses/nanobind.txt": "Redistribution and use\n", "native/b.txt": "x\n"})

    assert [Path("native/b.txt")] == [violation.path for violation in forbidden.missing_licences(tree)]


def test_a_missing_layer_table_is_an_error(tmp_path: Path) -> None:
    """A renamed heading in the architecture does not switch the layer gate off."""
    tree = tree_with(tmp_path, {"docs/architecture.md": "# Architecture\n"})

    with pytest.raises(ValueError, match=r"has no table whose first column is headed"):
        native_layers.include_violations(tree)


def test_links_and_ignored_files_are_no_sources(tmp_path: Path) -> None:
    """A linked folder is not read a second time under another name."""
    tree = tree_with(tmp_path, {"tuner/a.py": ""})
    (tmp_path / "native").symlink_to(tmp_path / "tuner", target_is_directory=True)

    assert [Path("tuner/a.py")] == list(tree.files())


def test_a_benchmark_without_a_command_in_the_readme_is_named(tmp_path: Path) -> None:
    """Programs are known by their commands: a folder, a module, and a script that is started by its path."""
    readme = (
        "`python -m benchmarks.tuner.a`, `run -np 2 python benchmarks/engine/b.py`, `python -m benchmarks.service`\n"
    )
    programs = ["tuner/a/__main__.py", "engine/b.py", "service/__main__.py", "engine/c.py", "tuner/d/__main__.py"]
    programs.append("engine/e/__main__.py")
    libraries = {"benchmarks/tuner/a/library.py": "", "benchmarks/engine/e/library.py": ""}
    files = {f"benchmarks/{name}": MAIN for name in programs} | libraries

    found = folders.unlisted_benchmarks(tree_with(tmp_path, {**files, "benchmarks/README.md": readme}))

    unlisted = [Path("benchmarks", name) for name in ("engine/c", "engine/e", "tuner/d")]
    assert unlisted == [violation.path for violation in found]
