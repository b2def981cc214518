# SPDX-License-Identifier: Apache-2.0
"""The `ringtune` command without any time for the ranks' last output, as on a machine that is very busy."""

from ringtune import cli
from ringtune.launch import job_loop

job_loop.LOCAL_DRAIN_S = 0.0
cli.main()
