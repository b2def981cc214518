# SPDX-License-Identifier: Apache-2.0
"""The service over HTTP: permissions, limits, calls and replies. Decides no question of tuning.

A request passes, in this order: its id, the counters, permissions, its rate, the cache of recommendations, the size of
its body, the number at work; then its route, in `v1/` or `health`.
"""
