# SPDX-License-Identifier: Apache-2.0
"""Environment of a Python worker of Spark's, which serves one task after the other."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ringtune.meeting.bootstrap import environment


@contextmanager
def changed_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Add variables to the environment; afterwards it is as before, whatever the function has changed."""
    environ = environment()
    before = dict(environ)
    environ.update(variables)
    try:
        yield
    finally:
        for name in environ.keys() - before.keys():
            del environ[name]
        environ.update(before)
