# SPDX-License-Identifier: Apache-2.0
"""The PTX in the engine is that of its sources: `make kernels` was run after their last change."""

import re

from native.packaging import kernels

MAX_LITERAL = 65536  # characters that every C++ compiler takes


def test_the_ptx_is_that_of_the_kernels_and_headers_as_they_are() -> None:
    """A change of a kernel, a shared header, or an option goes with the PTX that it makes."""
    text = kernels.OUTPUT.read_text(encoding="utf-8")

    assert kernels.is_current(text, kernels.compiled_texts()), "run `make kernels` and commit what it writes"


def test_any_change_of_what_is_compiled_or_written_is_seen() -> None:
    """Each text that the compiler is given counts, and so does the PTX itself."""
    texts = {kernels.KERNELS: "a", "base/half.h": "b", "bit": "c"}
    text = kernels.included_text(".version 7.4\n.visible .entry f(\n)\n", texts)

    assert kernels.is_current(text, texts)
    for name in texts:
        assert not kernels.is_current(text, {**texts, name: "d"})
    assert not kernels.is_current(text.replace("entry f", "entry g"), texts)


def test_each_kernel_is_one_literal_that_compilers_take() -> None:
    """Compilers need not take literals of more than 65536 characters."""
    literals = re.findall(r'R"ptx\((.*?)\)ptx",', kernels.OUTPUT.read_text(encoding="utf-8"), re.DOTALL)

    assert [0] + [1] * (len(literals) - 1) == [literal.count(".entry ") for literal in literals]
    assert max(map(len, literals)) < MAX_LITERAL
