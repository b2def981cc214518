# SPDX-License-Identifier: Apache-2.0
"""MUNGE credentials: short texts that one user's processes alone can open, on every node of a cluster.

A cluster under Slurm runs the daemon `munged` on each node; all of them share one secret key. A credential is encrypted
and authenticated with it, says which user made it, expires, and can be opened once on a node. The library `libmunge`,
which Slurm itself needs, is loaded where it is asked for.
"""

import ctypes
import os
from ctypes import CDLL, POINTER, byref, c_char_p, c_int, c_uint, c_void_p
from functools import cache

from ringtune.meeting.rendezvous.peer_process import is_same_user

LIBRARY = "libmunge.so.2"
_CIPHER_TYPE, _MAC_TYPE, _SOCKET, _UID_RESTRICTION = 0, 1, 8, 9  # options of <munge.h>
_AES_128, _SHA_256 = 4, 5  # stated, so that no default of the daemon's leaves a credential unencrypted
_SUCCESS = 0
_CLOCK_ERRORS = frozenset({15, 16})  # expired, and from the future


class SealError(Exception):
    """A text cannot be sealed, or a sealed one cannot be opened; the message has the reason."""


class Munge:
    """Seals texts for this process's user, and opens texts that this user has sealed, here or on another node."""

    def __init__(self, socket_path: str = "") -> None:
        """Load the library.

        Args:
            socket_path: Socket of the daemon; empty for the library's own.

        Raises:
            SealError: If there is no library, or no daemon that answers.
        """
        self._library = load_library()
        self._socket_path = socket_path
        self.seal("")

    def seal(self, text: str) -> str:
        """Return a credential with the text, which this user's processes alone can open.

        Raises:
            SealError: If the daemon does not answer.
        """
        content = text.encode()
        credential = c_char_p()
        context = self._context()
        try:
            code = self._library.munge_encode(byref(credential), context, content, len(content))
            self._check(code, context)
            return (credential.value or b"").decode("ascii")
        finally:
            self._library.munge_ctx_destroy(context)
            _free(credential)

    def open(self, sealed: str) -> str:
        """Return the text of a credential that this user has made.

        Raises:
            SealError: If another user has made it, it was opened before, or it is none.
        """
        context = self._context()
        content, size, uid, gid = c_void_p(), c_int(), c_uint(), c_uint()
        try:
            code = self._library.munge_decode(
                sealed.encode("ascii", "replace"), context, byref(content), byref(size), byref(uid), byref(gid)
            )
            self._check(code, context)
            if not is_same_user(uid.value):
                raise SealError(f"it was made by user {uid.value}, and this process runs as user {os.geteuid()}")
            return ctypes.string_at(content, size.value).decode("utf-8", "replace")
        finally:
            self._library.munge_ctx_destroy(context)
            _free(content)

    def _context(self) -> int:
        context = self._library.munge_ctx_create()
        options: list[tuple[int, object]] = [
            (_CIPHER_TYPE, c_int(_AES_128)),
            (_MAC_TYPE, c_int(_SHA_256)),
            (_UID_RESTRICTION, c_uint(os.geteuid())),
        ]
        if self._socket_path:
            options.append((_SOCKET, c_char_p(os.fsencode(self._socket_path))))
        for option, value in options:
            self._check(self._library.munge_ctx_set(c_void_p(context), option, value), context)
        return int(context)

    def _check(self, code: int, context: int) -> None:
        if code == _SUCCESS:
            return
        reason = self._library.munge_ctx_strerror(context) or self._library.munge_strerror(code) or b""
        advice = "; set the clocks of the nodes by one source (NTP)" if code in _CLOCK_ERRORS else ""
        raise SealError(f"munge: {reason.decode('utf-8', 'replace')}{advice}")


@cache
def load_library() -> CDLL:
    """Return the library; raises `SealError` where there is none."""
    try:
        library = CDLL(LIBRARY)
    except OSError as error:
        raise SealError(f"{error}") from error
    library.munge_ctx_create.restype = c_void_p
    library.munge_ctx_destroy.argtypes = [c_void_p]
    library.munge_ctx_strerror.argtypes = [c_void_p]
    library.munge_ctx_strerror.restype = c_char_p
    library.munge_strerror.restype = c_char_p
    library.munge_encode.argtypes = [POINTER(c_char_p), c_void_p, c_char_p, c_int]
    library.munge_decode.argtypes = [c_char_p, c_void_p, *(POINTER(t) for t in (c_void_p, c_int, c_uint, c_uint))]
    return library


def _free(memory: c_char_p | c_void_p) -> None:
    """Give memory back that the library has allocated by malloc()."""
    free = CDLL(None).free
    free.argtypes = [c_void_p]
    free(ctypes.cast(memory, c_void_p))
