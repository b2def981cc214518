# SPDX-License-Identifier: Apache-2.0
"""Operations for TensorFlow's graphs: `python -m ringtune.tensorflow_op` builds their library."""

import importlib
from pathlib import Path
from typing import Any

from ringtune.graph_operations.graph_library import GraphLibrary
from ringtune.graph_operations.graph_library_command import build_library

HOW_TO_BUILD = "build it with `python -m ringtune.tensorflow_op` in the job's environment"
_FLAGS = ("-O2", "-fPIC", "-shared", "-w")  # the warnings are about TensorFlow's headers


def tensorflow_library(tensorflow: Any) -> GraphLibrary:
    """Return the library for a version of TensorFlow.

    Args:
        tensorflow: The module `tensorflow`.
    """

    def load(path: Path) -> Any:
        try:
            return tensorflow.load_op_library(str(path))
        except tensorflow.errors.OpError as error:
            raise OSError(str(error)) from error

    return GraphLibrary(
        source="tensorflow_op.cpp",
        framework="tensorflow",
        version=tensorflow.__version__,
        compile_flags=[*tensorflow.sysconfig.get_compile_flags(), *_FLAGS],
        link_flags=tensorflow.sysconfig.get_link_flags(),
        load=load,
    )


def main() -> int:
    """Build the library for the TensorFlow of this environment."""
    library = "ringtune.tensorflow_op"
    return build_library(library, "TensorFlow", lambda: tensorflow_library(importlib.import_module("tensorflow")))
