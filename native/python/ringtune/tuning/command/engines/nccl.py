# SPDX-License-Identifier: Apache-2.0
"""NCCL: algorithm and protocol of allreduce, reduce-scatter and allgather, channels, threads, buffers.

Algorithms and protocols go by the table of our tuner plugin alone, never by `NCCL_ALGO` or `NCCL_PROTO`. LL128 named
there is used without NCCL's own conditions (links and GPUs that keep 128 bytes together), and can corrupt data. The
plugin chooses only among the cells that NCCL itself offers for a call. It needs NCCL 2.24 or newer.

NCCL opens sockets for data by helper threads alone, and starts none of these by itself except on AWS and GCP
(`ncclNetSocketGetNsockNthread` in src/transport/net_socket.cc, 2.23 to 2.30). Sockets per thread therefore need a
number of threads.

The baseline sets no variable: it runs without the plugin, for a loaded tuner switches parts of NCCL off. NCCL has no
way to say "as you see fit" for a variable that is set, so "default" leaves it unset too.
"""

from collections.abc import Mapping
from pathlib import Path

from ringtune.tuner import Config, Value

from .engine import DEFAULT, Engine, Knob, WinnerFile, choice_knob, settings_file, size_knob
from .nccl_plugin import PLUGIN_VARIABLE, plugin_path
from .nccl_table import MAX_CHANNELS, TABLE_VARIABLE, Rule, encode_table

KIB = 1024
PREFIXES = {"allreduce": "", "reducescatter": "reducescatter_", "allgather": "allgather_"}
"""Prefix of the knobs of each collective. DDP lives on the first, FSDP and ZeRO on the other two."""
ALGORITHMS = {
    "allreduce": ("ring", "tree", "nvls", "nvls_tree"),
    "reducescatter": ("ring", "nvls", "pat"),
    "allgather": ("ring", "nvls", "pat"),
}
PROTOCOLS = ("ll", "ll128", "simple")
SIMPLE_ALONE = ("nvls", "nvls_tree", "pat")
"""Algorithms with one protocol, `simple` (`ncclTopoTuneModel` in NCCL's src/graph/tuning.cc, 2.24 to 2.30)."""
CONF_NAME = "nccl.conf"
TABLE_NAME = "nccl-tuner.table"
TRIAL_TABLE = "trial-tuner.table"
_CTA_NAMES = ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")
_OLDER_CTA_NAMES = ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS")
_SOCKET_THREADS = "NCCL_SOCKET_NTHREADS"
_PLUGIN_NAMES = (PLUGIN_VARIABLE, TABLE_VARIABLE)


def table_rules(config: Config) -> tuple[Rule, ...]:
    """Return the plugin's part of a config: a rule for each collective that is not left to NCCL, of every size."""
    choices = {name: (config[f"{prefix}algorithm"], config[f"{prefix}protocol"]) for name, prefix in PREFIXES.items()}
    return tuple(
        Rule(name, algorithm=_named(algorithm), protocol=_named(protocol))
        for name, (algorithm, protocol) in choices.items()
        if (algorithm, protocol) != (DEFAULT, DEFAULT)
    )


def _named(value: Value) -> str | None:
    return None if value == DEFAULT else str(value)


def _effective(config: Config) -> Config:
    """Return a config with the default in place of values that have no effect beside the others."""
    idle = {f"{prefix}protocol" for prefix in PREFIXES.values() if config[f"{prefix}algorithm"] in SIMPLE_ALONE}
    if config["socket_threads"] == DEFAULT:
        idle.add("sockets_per_thread")
    return Config({name: DEFAULT if name in idle else value for name, value in config.items()})


def _plugin_variables(config: Config, table: Path) -> dict[str, str]:
    """Return the variables that load the plugin; empty for a config without rules."""
    return {PLUGIN_VARIABLE: str(plugin_path()), TABLE_VARIABLE: str(table)} if table_rules(config) else {}


def _environment(config: Config, folder: Path) -> Mapping[str, str]:
    return _plugin_variables(config, folder / TRIAL_TABLE)


def _trial_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    del folder, comment
    rules = table_rules(config)
    return (WinnerFile(TRIAL_TABLE, encode_table(rules)),) if rules else ()


def _winner_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    usage = "export NCCL_CONF_FILE={path} on every rank, or for an older NCCL copy it to ~/.nccl.conf"
    values = {**NCCL.plain_variables(config), **_plugin_variables(config, folder / TABLE_NAME)}
    conf = settings_file(CONF_NAME, values, comment, usage=usage)
    rules = table_rules(config)
    return (conf, WinnerFile(TABLE_NAME, encode_table(rules))) if rules else (conf,)


def _collective_knobs(name: str) -> tuple[Knob, Knob]:
    prefix = PREFIXES[name]
    return (
        choice_knob(f"{prefix}algorithm", {word: word for word in ALGORITHMS[name]}),
        choice_knob(f"{prefix}protocol", {word: word for word in PROTOCOLS}),
    )


NCCL = Engine(
    name="nccl",
    knobs=(
        *_collective_knobs("allreduce"),
        *_collective_knobs("reducescatter"),
        *_collective_knobs("allgather"),
        size_knob("channels", 1, MAX_CHANNELS, 1, _CTA_NAMES),
        size_knob("buffer_bytes", 256 * KIB, 32 * KIB * KIB, 64 * KIB, ("NCCL_BUFFSIZE",)),
        choice_knob("threads", {str(count): str(count) for count in (64, 128, 256, 512)}, ("NCCL_NTHREADS",)),
        size_knob("socket_threads", 1, 8, 1, (_SOCKET_THREADS,)),
        size_knob("sockets_per_thread", 1, 8, 1, ("NCCL_NSOCKS_PERTHREAD",)),
    ),
    winner_files=_winner_files,
    is_for_gpus=True,
    environment_of=_environment,
    trial_files=_trial_files,
    effective=_effective,
    needs={"sockets_per_thread": (("socket_threads",),)},
    owned={
        **{f"{prefix}algorithm": ("NCCL_ALGO", *_PLUGIN_NAMES) for prefix in PREFIXES.values()},
        **{f"{prefix}protocol": ("NCCL_PROTO", *_PLUGIN_NAMES) for prefix in PREFIXES.values()},
        "channels": _OLDER_CTA_NAMES,
        "sockets_per_thread": (_SOCKET_THREADS,),
    },
)
