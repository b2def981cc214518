# SPDX-License-Identifier: Apache-2.0
"""Facts of this installation and machine that `ringtune doctor` shows, each part with the problems that it finds."""
