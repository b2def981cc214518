# SPDX-License-Identifier: Apache-2.0
"""The variables of torchrun, out of those that `ringtune run` sets."""

from ringtune.meeting.bootstrap.torch_variables import torch_variables


def test_a_rank_s_place_is_told_in_torch_s_words() -> None:
    """Rank 3 of 4 on two hosts; the agent's store is not promised, for there is no agent."""
    environ = {
        "RINGTUNE_RANK": "3",
        "RINGTUNE_WORLD_SIZE": "4",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
    }

    variables = torch_variables(environ, "10.0.0.1", 29500)

    place = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
    assert ("3", "4", "1", "2", "1", "10.0.0.1", "29500") == tuple(variables[name] for name in place)
    assert "TORCHELASTIC_RUN_ID" in variables
    assert "TORCHELASTIC_USE_AGENT_STORE" not in variables
