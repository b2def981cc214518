# SPDX-License-Identifier: Apache-2.0
"""Tuning logs: their records, writers, readers, schema, and the file of earlier studies."""
