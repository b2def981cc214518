# SPDX-License-Identifier: Apache-2.0
"""Ranks that have met, with an engine: its config, handles and process sets, and the measured algorithm table."""
