# SPDX-License-Identifier: Apache-2.0
"""Every error that ringtune raises, and the state that each leaves.

::

    RuntimeError
     `- RingtuneError
         |- ConfigError            also a ValueError; no job was started, or the call had no effect
         |   `- WrongTypeError     also a TypeError; the same
         |- RendezvousError        the process has no place in the job and no engine
         |   `- DismissedError     the same, as the launcher wished
         |- ForkedProcessError     the parent's engine is untouched
         |- StoreError             the file or the service; training is untouched (ringtune.client has its kinds)
         `- EngineError            also named HorovodInternalError
             |- MismatchError      also a ValueError; the engine stays usable
             |- PeerLostError      only shutdown() is usable
             |- DeviceError        the engine stays usable where the call that raised it had no effect
             `- CollectiveTimeout  only shutdown() is usable

The binding raises these classes by name with one argument, the message. This module imports no other.
"""


class RingtuneError(RuntimeError):
    """Root of all errors that ringtune raises on purpose."""


class ConfigError(RingtuneError, ValueError):
    """A setting, an argument or the launch is wrong: fix it and start again.

    Code that was written for Horovod may catch it as a ValueError.

    Raised by `init()`: the world was not joined, on no rank. Raised by any other call: the call had no effect and
    the engine stays usable.
    """


class WrongTypeError(ConfigError, TypeError):
    """An argument is of a type that the call does not take; the call had no effect and the engine stays usable."""


class RendezvousError(RingtuneError):
    """The rendezvous server gave this process no place: it refuses it, found too few workers in time, or has ended.

    Raised by `init()` alone; asking again would not help.
    """


class DismissedError(RendezvousError):
    """The launcher has taken this process out of the job, or the job has ended without it: end quietly.

    Raised by `init()` alone.
    """


class ForkedProcessError(RingtuneError):
    """The engine was used in a forked child, where it does not run.

    The parent's engine is untouched. A child that needs an engine must be started as a rank of its own.
    """


class StoreError(RingtuneError):
    """A store of tuning results could not be read or written. Training and the engine are untouched."""


class EngineError(RingtuneError):
    """A collective failed. Horovod's code knows this class as `HorovodInternalError`."""


class MismatchError(EngineError, ValueError):
    """Ranks submitted one name with different shapes, dtypes or operations, or one rank submitted a name twice.

    Raised on every rank for that tensor alone; no buffer was touched and the engine stays usable. A name that is in
    flight already is refused on the rank that repeats it. Code that was written for Horovod may catch it as a
    ValueError.
    """


class PeerLostError(EngineError):
    """A rank ended, or shut down while others needed it.

    Every pending and later call raises it; only `shutdown()` is usable. Buffers of pending collectives may be
    partly overwritten.
    """


class DeviceError(EngineError):
    """The CUDA driver is missing, or one of its calls failed for a tensor of a GPU.

    Raised by the call that submits a tensor: the call had no effect. Raised by any other call, or after an error that
    the GPU's context does not survive: every pending and later call raises it, on every rank; only `shutdown()` is
    usable.
    """


class CollectiveTimeout(EngineError):  # noqa: N818  (the contract's name)
    """A collective, or the meeting of the ranks at init, did not end within `RINGTUNE_TIMEOUT_S`.

    Every pending and later call raises it; only `shutdown()` is usable. Buffers of pending collectives may be
    partly overwritten.
    """


HorovodInternalError = EngineError


def error_from_name(name: str, message: str) -> RingtuneError:
    """Rebuild an error that another rank described by its class name.

    Args:
        name: Class name out of this module; any other becomes the root class.
        message: The text to carry.

    Returns:
        The error, not raised.
    """
    known: tuple[type[RingtuneError], ...] = (
        ConfigError,
        WrongTypeError,
        RendezvousError,
        DismissedError,
        ForkedProcessError,
        StoreError,
        MismatchError,
        PeerLostError,
        DeviceError,
        CollectiveTimeout,
    )
    by_name = {error.__name__: error for error in known}
    return by_name.get(name, RingtuneError)(message)
