# SPDX-License-Identifier: Apache-2.0
"""Process that looks for hosts: runs the discovery script, or calls the discovery function, each time it is asked to.

`python -m ringtune.launch.elastic.finder KIND SOURCE SLOTS`. A line on standard input asks for a look; the answer is a
JSON object on one line of standard output. A script or a function that hangs, floods or crashes harms this process
group alone: the launcher kills it and starts another. It ends with the launcher.
"""

import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from ringtune.launch.addresses import is_this_machine
from ringtune.system.tied_program import die_with_parent

from .answers import MISSING, Answer, answer_text, failed, once_here, read_answer

SCRIPT, FUNCTION = "script", "function"
MAX_OUTPUT_BYTES = 1 << 20
MAX_COMPLAINT_BYTES = 4096  # end of a script's standard error, the last line of which is shown
MISSING_CODES = (126, 127)  # exit codes of a shell whose command cannot be run or is not there
_READ_BYTES = 1 << 16
_ORDERS = 0


class _FloodError(Exception):
    """The script prints more than any list of hosts."""


def run_script(script: str, slots: int) -> Answer:
    """Run a discovery script by the shell and return its answer.

    Args:
        script: Command line.
        slots: Slots of a host for which it prints none.

    Raises:
        _FloodError: If it prints too much; it still runs.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, complaint = _read_both(process)
    code = process.wait()
    if code != 0:
        how = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
        last = complaint.decode("utf-8", "replace").strip().splitlines()[-1:] or ["nothing"]
        return failed(MISSING if code in MISSING_CODES else "exit", f"it {how}, saying: {last[0]}")
    return read_answer(output.decode("utf-8", "replace"), slots)


def call_function(name: str, slots: int) -> Answer:
    """Call a discovery function and return its answer.

    Args:
        name: `MODULE:FUNCTION`.
        slots: Slots of a host for which it returns none.
    """
    try:
        return read_answer(answer_text(_function(name)()), slots)
    except ImportError as error:
        return failed(MISSING, f"it raised {type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001  (whatever the user's function raises)
        return failed("raised", f"it raised {type(error).__name__}: {error}")


@cache
def _function(name: str) -> Callable[[], Any]:
    module, _, function = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in function.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} cannot be called")
    return found  # type: ignore[no-any-return]


@cache
def _is_here(host: str) -> bool:
    return is_this_machine(host)


def _read_both(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return a script's standard output, and the end of its standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    output, complaint = process.stdout.fileno(), process.stderr.fileno()
    texts = {output: bytearray(), complaint: bytearray()}
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        for descriptor in (_ORDERS, output, complaint):
            selector.register(descriptor, selectors.EVENT_READ)
        while len(selector.get_map()) > 1:
            for key, _ in selector.select():
                data = os.read(key.fd, _READ_BYTES)
                if key.fd == _ORDERS and not data:
                    os.killpg(0, signal.SIGKILL)  # the launcher has ended: nothing is left behind
                elif not data:
                    selector.unregister(key.fd)
                elif key.fd != _ORDERS:
                    texts[key.fd] += data
            del texts[complaint][:-MAX_COMPLAINT_BYTES]
            if len(texts[output]) > MAX_OUTPUT_BYTES:
                raise _FloodError
    return bytes(texts[output]), bytes(texts[complaint])


def main(kind: str, source: str, slots: int) -> None:
    """Answer until standard input ends."""
    launcher = os.getppid()
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever the function prints is no answer
    if kind == FUNCTION and not die_with_parent(launcher):
        return
    is_healthy = True
    while is_healthy and os.read(_ORDERS, _READ_BYTES):
        try:
            answer = (run_script if kind == SCRIPT else call_function)(source, slots)
        except _FloodError:
            answer = failed("size", f"it printed more than {MAX_OUTPUT_BYTES} bytes")
            is_healthy = False
        hosts = tuple(replace(host, is_here=_is_here(host.name)) for host in answer.hosts)
        answer = once_here(replace(answer, hosts=hosts))
        os.write(answers, json.dumps(asdict(answer)).encode() + b"\n")
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
