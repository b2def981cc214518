# SPDX-License-Identifier: Apache-2.0
"""Meaning of `auto` for algorithm and chunk: a table by size, measured once where a job runs and kept."""
