# SPDX-License-Identifier: Apache-2.0
"""Policy: what to try, how long to measure it, when to stop, and whether to adopt."""
