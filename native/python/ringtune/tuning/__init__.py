# SPDX-License-Identifier: Apache-2.0
"""Tuning jobs: what all share, and the engine, a model or a command as what is tuned."""
