# SPDX-License-Identifier: Apache-2.0
"""A host's process of `benchmarks.parameter_server`: forks the workers and servers of one trial after another.

It imports torch and the engine once, so that a process of a trial starts in milliseconds. A line of standard input has
the roles of a trial on this host, as a JSON list; the answer is a line with their exit codes. It ends with its input.
"""

import importlib
import json
import os
import sys
import traceback

from benchmarks.parameter_server.role_program import run
from benchmarks.parameter_server.student import all_digits
from benchmarks.parameter_server.trial import Role

LATE_IMPORT = "torch._dynamo"
"""Module that the first DDP and the first optimizer of a process import, which takes a second."""


def started(role: Role) -> int:
    """Fork a process for a role; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run(role)
        code = 0
    except BaseException:  # noqa: BLE001  (a fork must not return into the loop of its parent)
        print(f"{role.name} of {role.trial}:", file=sys.stderr)
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Serve until the input ends."""
    importlib.import_module(LATE_IMPORT)
    all_digits()  # read once for all trials
    print("ready", flush=True)
    for line in sys.stdin:
        children = [started(Role.from_json(text)) for text in json.loads(line)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    main()
