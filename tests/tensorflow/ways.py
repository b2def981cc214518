# SPDX-License-Identifier: Apache-2.0
"""The way of gradients in graphs: TensorFlow operations, or numpy functions."""

from ringtune.graph_operations import graph_library


def choose_way(way: str, rank: int) -> None:
    """Make this rank's gradients go a way where graphs are made.

    Args:
        way: `operations`, `numpy`, or `mixed` for operations on even ranks and numpy functions on odd ones.
        rank: This rank.
    """
    if way == "numpy" or (way == "mixed" and rank % 2):
        graph_library.library_folders = lambda: iter(())  # nothing was built
