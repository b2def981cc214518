# SPDX-License-Identifier: Apache-2.0
"""Options of `ringtune run`: tables by group, the configuration file, and what each option does to a job."""
