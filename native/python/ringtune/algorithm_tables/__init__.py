# SPDX-License-Identifier: Apache-2.0
"""What `auto` means for algorithm and chunk: a table by size, measured once where a job runs and kept for the next."""
