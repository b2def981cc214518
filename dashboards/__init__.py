# SPDX-License-Identifier: Apache-2.0
"""Show people what was tuned, what it gained and what it cost.

Duty: web pages and generated Grafana and Prometheus files. It may import `ringtune.tuner` and the schemas of
`ringtune.service`; it never imports the engine. It is not built yet: `ringtune review` reads tuning logs offline.
"""
