# SPDX-License-Identifier: Apache-2.0
"""How ranks find each other: from an environment or a launcher to authenticated connections, or to MPI."""
