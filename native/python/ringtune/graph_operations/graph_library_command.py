# SPDX-License-Identifier: Apache-2.0
"""The command that builds a framework's library: the body of `python -m ringtune.tensorflow_op` and its sibling."""

import argparse
import sys
from collections.abc import Callable

from ringtune.errors import ConfigError
from ringtune.graph_operations.graph_library import GraphLibrary


def build_library(module: str, framework: str, library: Callable[[], GraphLibrary]) -> int:
    """Build the operations for this environment and print their library; return 2 if that is not possible.

    Args:
        module: Module that was started, for the usage line.
        framework: Name of the framework, as it is written.
        library: Returns the library; raises `ImportError` where the framework is not installed.
    """
    description = f"Build the operations for this environment's {framework} and print their library."
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--compiler", default="g++", help="C++ compiler (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        wanted = library()
        sys.stdout.write(f"compiling for {framework} {wanted.version}, which takes some seconds ...\n")
        sys.stdout.flush()
        path = wanted.build(arguments.compiler)
    except (ConfigError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0
