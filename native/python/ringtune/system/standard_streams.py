# SPDX-License-Identifier: Apache-2.0
"""Keeps descriptors 0 to 2 for the standard streams, also where a process was started with them closed.

Else the next file that is opened gets such a number, and output to standard error is written into it: into the memory
of the gradients, onto a connection. `base/descriptors.h` does the same for descriptors that the engine opens itself.
"""

import contextlib
import fcntl
import os

FIRST_OTHER = 3


def occupy_standard_streams() -> None:
    """Open the null device on each of 0 to 2 that is closed; children get it, too."""
    for descriptor in range(FIRST_OTHER):
        if _is_closed(descriptor):
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            if opened >= FIRST_OTHER:  # another thread was faster
                os.close(opened)
                return
            os.set_inheritable(opened, True)


def above_standard_streams(descriptor: int) -> int:
    """Return another number for a descriptor that is one of 0 to 2, and close the old one; else the same.

    Raises:
        OSError: If no descriptor is left; the old one is closed.
    """
    if descriptor >= FIRST_OTHER:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_OTHER)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False
