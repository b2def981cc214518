# SPDX-License-Identifier: Apache-2.0
"""Program of each rank of `ringtune.run`: `python -m ringtune.run_function.rank_program FOLDER`.

It makes the function again, calls it, and leaves its result or error in the folder.
"""

import importlib.util
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment, told_rank
from ringtune.meeting.bootstrap.joining import WORKER_ID_NAME

from .call_folder import MODULE_NAME, CallFolder
from .function_transport import imported
from .packing import read_data, write_data


def main(folder: CallFolder) -> None:
    """Call the function and leave its result or its error, which is then raised here as well."""
    if not folder.call.exists():
        raise ConfigError(
            f"the folder {folder.path} of the call is not there on host {socket.gethostname()}: ringtune.run on "
            "several hosts needs a working directory that all of them share"
        )
    worker = environment().get(WORKER_ID_NAME)
    outcome = folder.outcome(told_rank(environment())) if worker is None else folder.worker_outcome(worker)
    try:
        call = read_data(folder.call)
        sys.path[:] = [*call["path"], *(entry for entry in sys.path if entry not in call["path"])]
        function = _make_function(folder, call)
        arguments = read_data(folder.arguments)  # after the modules that have their classes
        result = function(*arguments["args"], **arguments["kwargs"])
        write_data(outcome, {"result": result, "latest": None if worker is None else _latest_place()})
    except BaseException as error:
        write_data(outcome, {**_failure(error), "latest": None if worker is None else _latest_place()})
        raise


def _latest_place() -> tuple[int, int] | None:
    """Return the latest meeting of this worker of an elastic job, and its rank there; None if it has had none."""
    from ringtune.session.session import SESSION  # noqa: PLC0415  (a function that uses no front end needs no engine)

    return None if SESSION.rendezvous is None else SESSION.rendezvous.latest


def _failure(error: BaseException) -> dict[str, Any]:
    """Return an error as the caller gets it; the traceback begins in the function."""
    frames = error.__traceback__
    inner = None if frames is None else frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, inner))
    return {"error": f"{type(error).__name__}: {error}", "traceback": text, "at_s": time.time()}


def _make_function(folder: CallFolder, call: Mapping[str, Any]) -> Callable[..., Any]:
    if call["module"]:
        return imported(call["module"], call["name"])
    spec = importlib.util.spec_from_file_location(MODULE_NAME, folder.source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module  # dataclasses look there for their own module
    vars(module).update(call["values"])
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, call["name"])
    return function


if __name__ == "__main__":
    main(CallFolder(Path(sys.argv[1])))
