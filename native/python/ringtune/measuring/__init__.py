# SPDX-License-Identifier: Apache-2.0
"""Measured comparisons: collectives of the engine and its rivals, and a script under DDP and the engine."""
