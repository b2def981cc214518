# SPDX-License-Identifier: Apache-2.0
"""Module of Horovod's that is missing here: an import says what to use in its place."""

from ringtune.settings.horovod_gaps import import_gap_error

raise import_gap_error("torch", "mpi_ops")
