# SPDX-License-Identifier: Apache-2.0
"""The service over HTTP: who may, how much, which call, which reply. Decides nothing about tuning.

A request passes, in this order: its id, the counters, who may, how often, the cache of recommendations, the size of its
body, the number at work; then its route, in `v1/` or `health`.
"""
