# SPDX-License-Identifier: Apache-2.0
"""What a job tells Prometheus: engine and tuner, read when somebody asks, served by every rank on a port of its own.

Between two scrapes nothing runs but the engine's own counting. Where `RINGTUNE_METRICS_PORT` is not set,
prometheus-client is not imported, and the engine's stopwatch not started.
"""
