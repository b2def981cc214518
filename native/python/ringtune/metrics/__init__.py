# SPDX-License-Identifier: Apache-2.0
"""Metrics of a job for Prometheus: engine and tuner, read at each scrape, served by every rank on its own port.

Between two scrapes only the engine's own counting runs. Where `RINGTUNE_METRICS_PORT` is not set,
prometheus-client is not imported, and the engine's stopwatch not started.
"""
