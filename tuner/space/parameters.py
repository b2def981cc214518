# SPDX-License-Identifier: Apache-2.0
"""The engine's parameters: the single table of names, ranges and defaults for settings and tuner."""

from collections.abc import Collection, Mapping, Sequence

from .config import Config, Value
from .parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter, SpaceError
from .search_space import SearchSpace

KIB = 1024
MIB = 1024 * KIB

MAX_CONNECTIONS = 16
"""Most connections that share the messages between two ranks of different hosts."""

AUTO = "auto"
"""Value that leaves the choice to the engine: its algorithm table by size, or its chunk for the layout."""

TUNED_ON_ONE_HOST = ("fusion_bytes", "cycle_ms", "response_cache", "chunk_bytes")
"""Parameters with an effect if all ranks share a host: the hierarchical switches need several hosts."""

TUNED_ON_NCCL = ("fusion_bytes", "cycle_ms", "response_cache", "nccl_pack_bytes", "nccl_ctas")
"""Parameters with an effect on tensors that NCCL carries between GPUs: the algorithms are NCCL's own."""

NCCL_HIERARCHICAL = "nccl_hierarchical"
"""Parameter with an effect on tensors that NCCL carries between several hosts, if one of them has several ranks."""

SKEW = "skew"
"""Parameter with an effect between hosts whose links differ in rate; see `can_skew`."""

ALGORITHMS_OF_ONE_HOST = ("direct", "reduce_scatter_allgather")
"""Algorithms of the engine's registry that can run on one host, and there alone; the others run between hosts alone."""

CONNECTIONS = "connections"
"""Parameter with an effect on several hosts only, if TCP carries the data between them."""

WIRE = "wire"
"""Parameter with an effect between hosts only: `bf16` rounds gradients of float32. The tuner varies it where the user
allows that, for it is not as exact as its default."""

ROUNDED_SHARE = 0.5
"""Bytes between hosts under `wire` bf16, of those of float32."""

HIERARCHICAL = ("hierarchical_allreduce", "hierarchical_allgather")
"""Parameters with an effect on several hosts only, if one of them has several ranks."""


def engine_parameters(algorithms: Collection[str] = ()) -> tuple[Parameter, ...]:
    """Return the engine's parameters in a fixed order.

    Args:
        algorithms: Names in the engine's allreduce registry, without `auto`.
    """
    return (
        NumberParameter("fusion_bytes", 64 * KIB, 256 * MIB, 64 * MIB, scale="log2", step=64 * KIB, special=(0,)),
        NumberParameter("cycle_ms", 0.05, 50.0, 1.0, scale="log"),
        BooleanParameter("hierarchical_allreduce", default=False),
        BooleanParameter("hierarchical_allgather", default=False),
        BooleanParameter("response_cache", default=True),
        CategoryParameter("allreduce_algorithm", (AUTO, *algorithms), AUTO),
        NumberParameter("chunk_bytes", 16 * KIB, 4 * MIB, AUTO, scale="log2", step=4 * KIB, special=(AUTO,)),
        NumberParameter("nccl_pack_bytes", KIB, 64 * MIB, 256 * KIB, scale="log2", step=KIB, special=(0,)),
        # Each value that is tried has a communicator of its own, which shares the memory of the first.
        NumberParameter("nccl_ctas", 1, 32, AUTO, scale="log2", step=4, special=(AUTO,)),
        BooleanParameter("nccl_hierarchical", default=False),
        NumberParameter("connections", 1, MAX_CONNECTIONS, 1, scale="log2", step=1),
        BooleanParameter("skew", default=False),
        CategoryParameter("wire", ("exact", "bf16"), "exact"),
    )


ENGINE_PARAMETERS: tuple[Parameter, ...] = engine_parameters()

FIRST_KNOBS = frozenset(
    (*TUNED_ON_ONE_HOST, *HIERARCHICAL, "allreduce_algorithm"),
)
"""Knobs of the engine's first version, which every version knows. A config of another version may lack a later one, or
have one that is not known here: a knob that a job does not know counts as its default. Add none to this set."""


def default_config(ranks_per_host: Sequence[int] = (1,)) -> Config:
    """Return the config of a job without settings.

    Where a host of several has several ranks, it has the hierarchical allreduce, which was faster in every such job of
    `benchmarks.engine.defaults`.

    Args:
        ranks_per_host: Number of ranks on each host; without it the default of every job on one host.
    """
    defaults = {parameter.name: parameter.default for parameter in ENGINE_PARAMETERS}
    return Config({**defaults, "hierarchical_allreduce": _has_hierarchy(ranks_per_host)})


def with_later_knobs(config: Mapping[str, Value]) -> dict[str, Value]:
    """Return a config of any version with the knobs that its version lacks, at their defaults.

    What ran without a knob ran as its default runs.
    """
    later = {p.name: p.default for p in ENGINE_PARAMETERS if p.name not in FIRST_KNOBS}
    return {**config, **{name: value for name, value in later.items() if name not in config}}


def goes_by_host(config: Mapping[str, Value], ranks_per_host: Sequence[int]) -> bool:
    """Return whether allreduces between hosts go host by host: asked for, or the same where every host has one rank.

    Args:
        config: Config with `hierarchical_allreduce`.
        ranks_per_host: Number of ranks on each host.
    """
    return bool(config["hierarchical_allreduce"]) or (len(ranks_per_host) > 1 and max(ranks_per_host) == 1)


def is_rounded(config: Mapping[str, Value]) -> bool:
    """Return whether gradients are rounded between hosts."""
    return config.get(WIRE) == "bf16"


def _has_hierarchy(ranks_per_host: Sequence[int]) -> bool:
    return len(ranks_per_host) > 1 and max(ranks_per_host) > 1


def can_skew(ranks_per_host: Sequence[int]) -> bool:
    """Return whether shares can change the traffic of a host: between two hosts every share has the same."""
    return len(ranks_per_host) > 2


def pinned_by_layout(ranks_per_host: Sequence[int], algorithm: Value = AUTO) -> dict[str, Value]:
    """Return the parameters without effect in a layout, with their values.

    Args:
        ranks_per_host: Number of ranks on each host.
        algorithm: Value that is asked for as `allreduce_algorithm`; one that cannot run there is `auto`.
    """
    pinned: dict[str, Value] = {CONNECTIONS: 1, WIRE: "exact"} if len(ranks_per_host) == 1 else {}
    if not _has_hierarchy(ranks_per_host):
        pinned.update(dict.fromkeys((*HIERARCHICAL, NCCL_HIERARCHICAL), False))
    if not can_skew(ranks_per_host):
        pinned[SKEW] = False
    if algorithm != AUTO and (algorithm in ALGORITHMS_OF_ONE_HOST) == (len(ranks_per_host) > 1):
        pinned["allreduce_algorithm"] = AUTO
    return pinned


def tunable_names(
    ranks_per_host: Sequence[int],
    *,
    has_allgathers: bool,
    is_on_nccl: bool = False,
    has_lanes: bool = True,
    has_uneven_links: bool = False,
    may_round: bool = False,
) -> tuple[str, ...]:
    """Return the names of the parameters that are worth tuning in a layout.

    Args:
        ranks_per_host: Number of ranks on each host.
        has_allgathers: Whether the job's steps contain allgathers.
        is_on_nccl: Whether NCCL carries the job's gradients.
        has_lanes: Whether ranks of different hosts have further connections that `connections` can use.
        has_uneven_links: Whether the links of the hosts were measured, and differ by so much that `skew` has an effect.
        may_round: Whether the user allows that gradients are rounded between hosts.
    """
    if is_on_nccl:
        return (*TUNED_ON_NCCL, *([NCCL_HIERARCHICAL] if _has_hierarchy(ranks_per_host) else []))
    acts = {CONNECTIONS: has_lanes, SKEW: has_uneven_links and can_skew(ranks_per_host), WIRE: may_round}
    between_hosts = [name for name, does_act in acts.items() if does_act and len(ranks_per_host) > 1]
    if not _has_hierarchy(ranks_per_host):
        return (*TUNED_ON_ONE_HOST, *between_hosts)
    return (*TUNED_ON_ONE_HOST, *(HIERARCHICAL if has_allgathers else HIERARCHICAL[:1]), *between_hosts)


def search_space(
    fixed: Mapping[str, Value],
    baseline: Config,
    *,
    tuned: Collection[str] = TUNED_ON_ONE_HOST,
    algorithms: Collection[str] = (),
) -> SearchSpace:
    """Return the space the tuner may search.

    Args:
        fixed: Values set by the user, which the tuner does not change.
        baseline: Config of the job without tuning; has the fixed values.
        tuned: Names that may vary; every other parameter is pinned to its value in the baseline.
        algorithms: Names in the engine's allreduce registry, without `auto`.

    Raises:
        SpaceError: If a value is not allowed, or the baseline contradicts a fixed value.
    """
    parameters = engine_parameters(algorithms)
    pinned = {p.name: baseline[p.name] for p in parameters if p.name not in tuned and p.name in baseline}
    space = SearchSpace(parameters, {**pinned, **fixed})
    try:
        space.validate(baseline)
    except SpaceError as error:
        raise SpaceError(f"the baseline cannot be used: {error}") from error
    return space
