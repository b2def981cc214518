# SPDX-License-Identifier: Apache-2.0
"""`ringtune run --check-build`: frameworks, controllers and operations, in the form of Horovod's report."""

import importlib.util

from ringtune.session.basics import ccl_built, ddl_built, gloo_built, mpi_built, nccl_built
from ringtune.version import __version__

FRAMEWORKS = {"TensorFlow": "tensorflow", "PyTorch": "torch", "MXNet": "mxnet"}


def build_report() -> str:
    """Return the frameworks, controllers and operations of this installation; imports only the engine."""
    installed = {name for name, package in FRAMEWORKS.items() if importlib.util.find_spec(package) is not None}
    frameworks = {name: name in installed and name != "MXNet" for name in FRAMEWORKS}
    controllers = {"ringtune": True, "MPI": mpi_built(), "Gloo": gloo_built()}
    operations = {
        "ringtune": True,
        "NCCL": bool(nccl_built()),
        "DDL": ddl_built(),
        "CCL": ccl_built(),
        "MPI": mpi_built(),
        "Gloo": gloo_built(),
    }
    sections = {
        "Available Frameworks": frameworks,
        "Available Controllers": controllers,
        "Available Tensor Operations": operations,
    }
    lines = [f"ringtune v{__version__}:"]
    for title, entries in sections.items():
        lines += ["", f"{title}:", *(f"    [{'X' if is_here else ' '}] {name}" for name, is_here in entries.items())]
    return "\n".join(lines)
