# SPDX-License-Identifier: Apache-2.0
"""Statistics of step times: noise of windows and pairs, the paired test, drift."""
