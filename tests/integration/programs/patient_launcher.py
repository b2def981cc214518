# SPDX-License-Identifier: Apache-2.0
"""The `ringtune` command, patient: an hour for ranks that do not heed a signal or a loss, and for half a line."""

from ringtune import cli
from ringtune.launch import ending, rank_output

ending.SELF_END_S = ending.TERM_S = rank_output.PARTIAL_LINE_S = rank_output.LONGEST_PARTIAL_S = 3600.0
cli.main()
