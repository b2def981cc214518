# SPDX-License-Identifier: Apache-2.0
"""`/v1/tokens`: permissions."""

from typing import Annotated

from fastapi import APIRouter, Path

from ringtune.service.api.authorization import MAY_ADMINISTER
from ringtune.service.api.dependencies import JsonRoute, Responses, ServiceDep
from ringtune.service.domain.values import TokenGrant
from ringtune.shared_service import rest_models

router = APIRouter(tags=["tokens"], route_class=JsonRoute)
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16,32}$", description="Id in the list of tokens.")]
NO_TOKEN: Responses = {404: {"description": "There is no such token."}}
SCOPE_ORDER: tuple[rest_models.Scope, ...] = ("read", "report", "admin")


@router.post("/v1/tokens", dependencies=[MAY_ADMINISTER], status_code=201)
def create_token(new: rest_models.NewToken, service: ServiceDep) -> rest_models.CreatedToken:
    """Create a token. Its secret is in this reply and nowhere else: only its hash is kept."""
    token, secret = service.tokens.create(new.name, frozenset(new.scopes), has_many_jobs=new.has_many_jobs)
    return rest_models.CreatedToken(**to_token(token).model_dump(), secret=secret)


@router.get("/v1/tokens", dependencies=[MAY_ADMINISTER])
def list_tokens(service: ServiceDep) -> rest_models.TokenPage:
    """List all tokens, those that were revoked too."""
    return rest_models.TokenPage(items=[to_token(token) for token in service.tokens.list()])


@router.delete(
    "/v1/tokens/{token_id}",
    dependencies=[MAY_ADMINISTER],
    responses=NO_TOKEN,
    status_code=204,
)
def revoke_token(token_id: TokenId, service: ServiceDep) -> None:
    """Revoke a token. It works for `cache_ttl_s` more at most."""
    service.tokens.revoke(token_id)


@router.patch("/v1/tokens/{token_id}", dependencies=[MAY_ADMINISTER], responses=NO_TOKEN)
def change_token(token_id: TokenId, change: rest_models.TokenChange, service: ServiceDep) -> rest_models.Token:
    """Say whether a token's jobs count one by one as evidence. Verdicts on its earlier reports follow."""
    return to_token(service.token_results.declare(token_id, has_many_jobs=change.has_many_jobs))


@router.delete("/v1/tokens/{token_id}/results", dependencies=[MAY_ADMINISTER])
def delete_results(token_id: TokenId, service: ServiceDep) -> rest_models.DeletedResults:
    """Delete all results and logs that came with a token, whether it still exists or not. Verdicts follow."""
    return rest_models.DeletedResults(results=service.token_results.delete(token_id))


def to_token(token: TokenGrant) -> rest_models.Token:
    """Return the reply's token."""
    return rest_models.Token(
        id=token.token_id,
        name=token.name,
        scopes=[scope for scope in SCOPE_ORDER if scope in token.scopes],
        age_s=max(0.0, token.age_s),
        is_revoked=token.is_revoked,
        has_many_jobs=token.has_many_jobs,
    )
