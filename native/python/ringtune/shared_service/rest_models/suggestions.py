# SPDX-License-Identifier: Apache-2.0
"""Suggestions: the config that a job tries next, under a lease."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from .fields import Config, Count, LeaseSeconds, Reply, Seconds, ShownText, Uuid, WireModel
from .studies import SearchSpace

DEFAULT_LEASE_S = 600.0


class Ask(WireModel):
    """Ask for a config to try. The same `trial_id` again gets the same config."""

    trial_id: Uuid
    job_id: Uuid
    lease_s: LeaseSeconds = DEFAULT_LEASE_S
    search_space: Annotated[
        SearchSpace | SkipJsonSchema[None],
        Field(
            description="The job's own, where it fixed other knobs than the study's first job: the config is legal "
            "there. Default: the study's."
        ),
    ] = None


class Lease(Reply):
    """Lease of a trial: its holder's fencing token, and its remaining time by the database's clock."""

    fencing_token: Annotated[
        Count, Field(description="Grows with every lease of the trial; give it back with each call.")
    ]
    expires_in_s: Seconds


class Suggestion(Reply):
    """A config to try, and the lease under which it is this job's."""

    trial_id: Uuid
    config: Config
    designer: Annotated[ShownText, Field(description="Name of the designer that suggested it.")]
    lease: Lease


class Renewal(WireModel):
    """Keep a trial for longer."""

    job_id: Uuid
    fencing_token: Count
    lease_s: LeaseSeconds = DEFAULT_LEASE_S
