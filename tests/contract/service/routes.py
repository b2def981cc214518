# SPDX-License-Identifier: Apache-2.0
"""Tables of every route of the service: its method, its path, and the scope that it needs."""

import re

from tests.contract.service.requests import UUIDS

LEASE = "/v1/studies/{study_id}/suggestions/{trial_id}/lease"
RESULT = "/v1/studies/{study_id}/trials/{trial_id}/result"
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}
SCOPES = {
    ("GET", "/metrics"): "read",
    ("GET", "/openapi.json"): "read",
    ("GET", "/v1/recommendations"): "read",
    ("GET", "/v1/studies"): "read",
    ("GET", "/v1/studies/{study_id}"): "read",
    ("GET", "/v1/studies/{study_id}/jobs"): "read",
    ("GET", "/v1/events"): "read",
    ("PUT", "/v1/studies/{study_id}/jobs/{job_id}"): "report",
    ("POST", "/v1/studies"): "report",
    ("POST", "/v1/studies/{study_id}/suggestions"): "report",
    ("PUT", LEASE): "report",
    ("DELETE", LEASE): "report",
    ("PUT", RESULT): "report",
    ("POST", "/v1/studies/{study_id}/results"): "report",
    ("POST", "/v1/runs"): "report",
    ("DELETE", "/v1/studies/{study_id}"): "admin",
    ("GET", "/v1/export"): "admin",
    ("POST", "/v1/import"): "admin",
    ("GET", "/v1/tokens"): "admin",
    ("POST", "/v1/tokens"): "admin",
    ("DELETE", "/v1/tokens/{token_id}"): "admin",
    ("PATCH", "/v1/tokens/{token_id}"): "admin",
    ("DELETE", "/v1/tokens/{token_id}/results"): "admin",
}
PAGES_OPEN = {("GET", "/sign-in"), ("POST", "/sign-in")}
PAGES = {
    ("GET", "/"): "read",
    ("GET", "/studies"): "read",
    ("GET", "/studies/{study_id}"): "read",
    ("GET", "/studies.csv"): "read",
    ("GET", "/studies/{study_id}/{table}.csv"): "read",
    ("GET", "/compare"): "read",
    ("GET", "/compare.csv"): "read",
    ("GET", "/hardware"): "read",
    ("GET", "/recommendations"): "read",
    ("GET", "/static/{name}"): "read",
    ("POST", "/sign-out"): "read",
    ("GET", "/tokens"): "admin",
    ("POST", "/tokens"): "admin",
    ("POST", "/tokens/{token_id}/counting"): "admin",
    ("POST", "/tokens/{token_id}/delete-results"): "admin",
    ("POST", "/tokens/{token_id}/revoke"): "admin",
    ("POST", "/tokens/sessions/{handle}/end"): "admin",
    ("GET", "/events"): "read",
}
TOKEN_ID = "0" * 16


def path_of(template: str) -> str:
    """Return a path that fits a template."""
    known = {
        "study_id": "0" * 32,
        "trial_id": UUIDS[0],
        "job_id": UUIDS[1],
        "token_id": TOKEN_ID,
        "name": "ringtune.js",
        "table": "jobs",
        "handle": "0" * 16,
    }
    return re.sub(r"{(\w+)}", lambda match: known[match[1]], template)
