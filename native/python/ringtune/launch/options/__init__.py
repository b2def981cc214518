# SPDX-License-Identifier: Apache-2.0
"""Options of `ringtune run`: tables by group, the configuration file, and the effect of each option on a job."""
