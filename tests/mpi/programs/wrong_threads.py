# SPDX-License-Identifier: Apache-2.0
"""Initialises MPI without MPI_THREAD_MULTIPLE before it joins the world."""

import mpi4py

from tests.integration.plain_rank import join

mpi4py.rc.thread_level = "serialized"
join()
