# SPDX-License-Identifier: Apache-2.0
"""Statistics of step times: the noise model, the paired sequential test, drift detection."""
