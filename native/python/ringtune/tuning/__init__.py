# SPDX-License-Identifier: Apache-2.0
"""Tuning jobs: their common parts, and one package for each kind of target: the engine, a model, a command."""
