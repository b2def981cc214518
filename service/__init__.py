# SPDX-License-Identifier: Apache-2.0
"""Remember, over HTTP, which config was best for which hardware and model.

Duty: the shared REST service, in three layers, api -> domain -> store. It may import `ringtune.tuner` (spaces,
samples, ranking) and `ringtune.errors`; it never imports the engine, the front ends or the launcher.
"""
