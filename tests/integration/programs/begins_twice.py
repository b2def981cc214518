# SPDX-License-Identifier: Apache-2.0
"""Initialises twice in one process, and forms a process set meanwhile."""

import ringtune.torch as hvd

for _ in range(2):
    hvd.init()
    hvd.add_process_set([0])
    hvd.shutdown()
