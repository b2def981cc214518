# SPDX-License-Identifier: Apache-2.0
"""API tokens."""

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, StrictBool, StringConstraints

from .fields import Count, Name, Reply, Seconds, ShownText, WireModel, one_of

Scope: TypeAlias = Literal["read", "report", "admin"]
TokenId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,32}$")]


ManyJobs: TypeAlias = Annotated[
    StrictBool,
    Field(
        description="True if it stands for many independent jobs, such as a team's: they count one by one as evidence, "
        "where else a token counts once."
    ),
]


class NewToken(WireModel):
    """Create a token."""

    name: Annotated[Name, Field(description="Name of the token's holder, for people.", examples=["ci"])]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=3, examples=[["read", "report"]])]
    has_many_jobs: ManyJobs = False


class TokenChange(WireModel):
    """Say how a token's jobs count, those that it reported already included."""

    has_many_jobs: ManyJobs


class DeletedResults(Reply):
    """Number of results that were deleted."""

    results: Count


class Token(Reply):
    """A token without its secret."""

    id: TokenId
    name: Name
    scopes: list[Annotated[ShownText, one_of(*get_args(Scope))]]
    age_s: Seconds
    is_revoked: StrictBool
    has_many_jobs: ManyJobs = False


class CreatedToken(Token):
    """A token with its secret, which is shown this once: only its hash is kept."""

    secret: Annotated[ShownText, Field(examples=["rt_2Zk..."])]


class TokenPage(Reply):
    """All tokens, the newest first."""

    items: list[Token]
    next_cursor: ShownText | None = None
