# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of machine and model, and the facts behind them: they say which question a tuning run answers."""
