# SPDX-License-Identifier: Apache-2.0
"""Builds the plugin for this environment's MPI: `python -m ringtune.mpi_plugin`."""

import sys

from ringtune.meeting.mpi_plugin import main

if __name__ == "__main__":
    sys.exit(main())
