# SPDX-License-Identifier: Apache-2.0
"""Module of Horovod's that is missing here: an import raises an error that names its replacement."""

from ringtune.settings.horovod_gaps import import_gap_error

raise import_gap_error("torch", "mpi_ops")
