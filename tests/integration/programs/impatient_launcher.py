# SPDX-License-Identifier: Apache-2.0
"""The `ringtune` command with short limits: hosts lost after 5 s of silence, ranks ended after 1 s, killed after 5."""

from ringtune import cli
from ringtune.launch import agent_protocol, ending

agent_protocol.BEAT_S, agent_protocol.SILENCE_S = 0.4, 5.0
ending.SELF_END_S, ending.TERM_S = 1.0, 5.0
cli.main()
