# SPDX-License-Identifier: Apache-2.0
"""A small table of measured configs with numbers, a special value and a switch."""

from benchmarks.tuner.regret.table import Table
from ringtune.tuner import BooleanParameter, Config, NumberParameter, SearchSpace

KIB = 1024
SPACE = SearchSpace(
    (
        NumberParameter("fusion_bytes", 64 * KIB, 1024 * KIB, 64 * KIB, scale="log2", step=KIB, special=(0,)),
        NumberParameter("cycle_ms", 1.0, 100.0, 1.0, scale="log"),
        BooleanParameter("is_on", default=False),
    ),
    {},
)


def config(fusion: int, cycle: float, *, is_on: bool = False) -> Config:
    """Return a config of the space."""
    return Config({"fusion_bytes": fusion, "cycle_ms": cycle, "is_on": is_on})


CELLS = {
    config(64 * KIB, 1.0): ((10.0, 10.0, 12.0), (10.0, 10.0, 10.0)),
    config(1024 * KIB, 1.0): ((40.0,),),
    config(64 * KIB, 100.0): ((20.0, 22.0, 24.0),),
    config(1024 * KIB, 100.0): ((80.0,),),
    config(0, 1.0): ((7.0,),),
    config(64 * KIB, 1.0, is_on=True): ((5.0,),),
}
TABLE = Table("t", "public", SPACE, config(64 * KIB, 1.0), CELLS, 1)
