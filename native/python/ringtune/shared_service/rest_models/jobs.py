# SPDX-License-Identifier: Apache-2.0
"""Facts that a job reports of itself: state, verdict, name, tags, commit, machines."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StrictInt, StringConstraints

from .fields import PRINTABLE, UUID_PATTERN, WHOLE, Count, Name, Reply, Seconds, ShownText, WireModel, one_of

SaidState: TypeAlias = Literal["running", "adopted", "keeping_default", "ended_early"]
Verdict: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=500, pattern=PRINTABLE),
    Field(description="The decision in words.", examples=["keeping default: no configuration is expected to gain"]),
]
Commit: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=PRINTABLE),
    Field(description="Commit of the job's code.", examples=["9fceb02d0ae598e95dc970b74767f19372d61af8"]),
]
BitsPerSecond: TypeAlias = Annotated[StrictInt, Field(ge=0, le=10**15), WHOLE]
Amount: TypeAlias = Annotated[StrictInt, Field(ge=1, le=1_000_000), WHOLE]


JobName: TypeAlias = Annotated[
    ShownText, Field(description="The job's id.", json_schema_extra={"pattern": UUID_PATTERN})
]
"""A job's id in a reply: the run ids of logs, and imports, may have brought others than UUIDs."""


class Machine(WireModel):
    """Some hosts that are alike, as they declare themselves."""

    hosts: Amount
    cpu_model: Name
    cores: Annotated[Amount, Field(description="Cores of each host.")]
    numa_nodes: Amount = 1
    gpus: Annotated[list[Name], Field(default_factory=list, max_length=64, description="GPUs of each host.")]
    link_kind: Name | None = None
    link_bits_per_s: BitsPerSecond | None = None


class JobFacts(WireModel):
    """Facts that a job reports of itself. A decision that it reported stays, whatever comes later."""

    state: SaidState = "running"
    verdict: Verdict | None = None
    name: Name | None = None
    tags: Annotated[list[Name], Field(default_factory=list, max_length=20)]
    commit: Commit | None = None
    hardware_name: Annotated[Name | None, Field(description="The first name that is given stays.")] = None
    machines: Annotated[
        list[Machine], Field(default_factory=list, max_length=64, description="Hosts that are alike are one.")
    ]


class Job(Reply):
    """A job of a study."""

    job_id: JobName
    state: Annotated[
        ShownText,
        one_of("running", "adopted", "keeping_default", "ended_early", "lost"),
        Field(description="`lost`: silent for too long without a decision; it crashed, or cannot reach the service."),
    ]
    verdict: Verdict | None
    name: Name | None
    tags: list[Name]
    commit: Commit | None
    results: Count
    age_s: Annotated[Seconds, Field(description="Since it was heard of first.")]
    idle_s: Annotated[Seconds, Field(description="Since it was heard of last.")]


class JobList(Reply):
    """Jobs of a study, those that were heard of last first; `next_cursor` is null on the last page."""

    items: list[Job]
    next_cursor: ShownText | None = None
