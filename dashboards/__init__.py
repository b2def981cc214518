# SPDX-License-Identifier: Apache-2.0
"""Show people the results of tuning, its gains and its costs.

Duty: Plotly figures (`figures`), built once for the report (`report`) and the web pages (`web`). It may import
`ringtune.tuner`, and the domain and api of `ringtune.service`; it never imports the engine.
"""
