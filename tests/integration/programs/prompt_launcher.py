# SPDX-License-Identifier: Apache-2.0
"""The `ringtune` command, prompt: as soon as one rank has failed the others are asked to end, and have their time."""

from ringtune import cli
from ringtune.launch import ending

ending.SELF_END_S = 0.1
cli.main()
