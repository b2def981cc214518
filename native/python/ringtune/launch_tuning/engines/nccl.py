# SPDX-License-Identifier: Apache-2.0
"""NCCL: algorithm and protocol of allreduce, channels, threads, buffers; winners as `nccl.conf` and our plugin's table.

The form `allreduce:ring` needs NCCL 2.24 or newer, and leaves the other collectives alone, of which some know one
algorithm only. NCCL has no way to say "as you see fit" for a value that is set, so "default" sets nothing.
"""

from collections.abc import Mapping
from pathlib import Path

from ringtune.tuner import Config, Value

from .engine import DEFAULT, Engine, WinnerFile, choice_knob, settings_file, size_knob
from .nccl_table import TABLE_VARIABLE, Rule, encode_table

KIB = 1024
ALGORITHM_WORDS: Mapping[Value, str] = {
    "ring": "allreduce:ring",
    "tree": "allreduce:tree",
    "nvls": "allreduce:nvls",
    "nvls_tree": "allreduce:nvlstree",
}
PROTOCOL_WORDS: Mapping[Value, str] = {"ll": "allreduce:LL", "ll128": "allreduce:LL128", "simple": "allreduce:Simple"}
CONF_NAME = "nccl.conf"
TABLE_NAME = "nccl-tuner.table"


def table_rules(config: Config) -> tuple[Rule, ...]:
    """Return what of a config the plugin can do: one rule for allreduces of every size, none where all is default."""
    algorithm, protocol, channels = (config[name] for name in ("algorithm", "protocol", "channels"))
    if algorithm == protocol == channels == DEFAULT:
        return ()
    return (
        Rule(
            collective="allreduce",
            algorithm=None if algorithm == DEFAULT else str(algorithm),
            protocol=None if protocol == DEFAULT else str(protocol),
            channels=0 if channels == DEFAULT else int(channels),
        ),
    )


def _winner_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    del folder
    usage = "export NCCL_CONF_FILE={path}, or for an older NCCL copy it to ~/.nccl.conf"
    conf = settings_file(CONF_NAME, NCCL.plain_variables(config), comment, usage=usage)
    rules = table_rules(config)
    if not rules:
        return (conf,)
    plugin = "instead, with the tuner plugin: export NCCL_TUNER_PLUGIN=libringtune_nccl_tuner.so"
    return (conf, WinnerFile(TABLE_NAME, encode_table(rules), f"{plugin} {TABLE_VARIABLE}={{path}}"))


NCCL = Engine(
    name="nccl",
    knobs=(
        choice_knob("algorithm", ALGORITHM_WORDS, ("NCCL_ALGO",)),
        choice_knob("protocol", PROTOCOL_WORDS, ("NCCL_PROTO",)),
        size_knob("channels", 1, 32, 1, ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")),
        size_knob("buffer_bytes", 256 * KIB, 32 * KIB * KIB, 64 * KIB, ("NCCL_BUFFSIZE",)),
        choice_knob("threads", {str(count): str(count) for count in (64, 128, 256, 512)}, ("NCCL_NTHREADS",)),
        size_knob("socket_threads", 1, 8, 1, ("NCCL_SOCKET_NTHREADS",)),
        size_knob("sockets_per_thread", 1, 8, 1, ("NCCL_NSOCKS_PERTHREAD",)),
    ),
    winner_files=_winner_files,
)
