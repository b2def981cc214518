# SPDX-License-Identifier: Apache-2.0
"""Meeting of ranks: from an environment or a launcher to authenticated connections, or to MPI."""
