# SPDX-License-Identifier: Apache-2.0
"""Sums over the ranks of an MPI job, and prints the transport that carried the data."""

import sys

import numpy as np

import ringtune.arrays as hvd
from ringtune.session.session import SESSION

hvd.init()
total = hvd.allreduce(np.array([hvd.rank() + 1.0]), op=hvd.Sum)
sys.stdout.write(f"rank {hvd.rank()}: sum {float(total[0])} by {SESSION.require().carrier}\n")
