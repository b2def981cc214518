# SPDX-License-Identifier: Apache-2.0
"""What identifies a job's question: fingerprints of machine and model, and the facts behind them."""
