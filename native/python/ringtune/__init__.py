# SPDX-License-Identifier: Apache-2.0
"""Ringtune: an allreduce engine that tunes itself while the job trains.

Training code imports a front end, such as `ringtune.torch`. Importing this package alone is cheap: no framework,
no engine, and not even `typing`, for Ctrl-C cannot end the `ringtune` command quietly before that is through.
"""

from __future__ import annotations

from .errors import (
    CollectiveTimeout,
    ConfigError,
    DeviceError,
    EngineError,
    ForkedProcessError,
    HorovodInternalError,
    MismatchError,
    PeerLostError,
    RingtuneError,
    StoreError,
)
from .version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = [
    "CollectiveTimeout",
    "ConfigError",
    "DeviceError",
    "EngineError",
    "ForkedProcessError",
    "HorovodInternalError",
    "MismatchError",
    "PeerLostError",
    "RingtuneError",
    "StoreError",
    "__version__",
    "mark_step",
    "run",
]


def mark_step() -> None:
    """Mark the end of a training step, where no `DistributedOptimizer` does.

    Raises:
        ConfigError: If no front end's `init()` was called.
        EngineError: If the world is lost.
    """
    from ringtune.session.session import SESSION  # noqa: PLC0415  (loads the engine, which importing the package must not)

    SESSION.require().engine.mark_step()


def run(
    function: Callable[..., Any] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    np: int | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    **horovod: Any,
) -> list[Any]:
    """Run a function on ranks, of this machine or of several hosts, and return each rank's result.

    The function calls `init()` of its front end itself. It is imported by its name where it stands in a module; in a
    notebook or in the program itself its source is sent, with all that it uses: modules, functions and classes of the
    same place, plain data. Arguments and results are plain data, arrays, and dense tensors in CPU memory: None, bool,
    int, float, str, list, tuple, dict. The ranks' output goes to this process's streams.

    Args:
        function: Made by `def`; no lambda, method or closure.
        args: Its positional arguments, the same on every rank.
        kwargs: Its keyword arguments.
        np: Number of ranks.
        env: Variables of the ranks, on top of this process's.
        timeout_s: Seconds after which the ranks are ended; None waits for ever.
        **horovod: The other arguments of `horovod.run`, by name: `func` and `num_proc` for `function` and `np`, and
            those that are options of `ringtune run`, such as `hosts`, `output_filename` or `verbose`. `hosts` may
            also be a list, a dictionary of slots, or a function that returns one of them, which is called once. Other
            hosts must share this process's working directory. With `min_num_proc` or `max_num_proc` the job is
            elastic: it goes on when ranks are lost, and the results are those of the ranks that are there at the end.

    Returns:
        The results, by rank.

    Raises:
        TypeError: If an argument is not known, or the function is missing.
        ConfigError: If function, arguments, variables or the number of ranks are not possible; no rank was started.
        ringtune.run_function.RankFailedError: If a rank raised, with its traceback, was killed, or took too long; no
            rank runs any more. Ctrl-C ends them too.
    """
    from .run_function import launch_arguments  # noqa: PLC0415  (loads the launcher)
    from .run_function import run as run_on_ranks  # noqa: PLC0415  (loads the engine)

    called = horovod.pop("func", None) if function is None else function
    if called is None:
        raise TypeError("ringtune.run() misses the function to run")
    launch = launch_arguments({"np": np, **horovod})
    return run_on_ranks(called, args, kwargs, launch=launch, env=env, timeout_s=timeout_s)
