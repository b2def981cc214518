# SPDX-License-Identifier: Apache-2.0
"""Loads a library whose symbols all others may bind to, then torch, and prints an average of one rank. Argument: it."""

import ctypes
import sys

ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)

import torch  # noqa: E402 - after the library, which is the point

import ringtune.torch as hvd  # noqa: E402 - as above

hvd.init()
print(hvd.allreduce(torch.ones(3)).tolist())  # noqa: T201 - the test reads it
