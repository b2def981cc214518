# SPDX-License-Identifier: Apache-2.0
"""The shared service that the environment names: whether it answers, its version, and whether it accepts the token."""

import time
from collections.abc import Mapping

from ringtune.client import ExchangeLimits, ServiceClient, ServiceRefusedError
from ringtune.errors import ConfigError, StoreError
from ringtune.tuning.service_link.first_config import answer_within

from .finding import DoctorSection, FoundProblem

URL_NAME, TOKEN_NAME = "AUTOTUNE_SERVICE_URL", "AUTOTUNE_SERVICE_TOKEN"
LIMIT_S = 5.0
"""Time limit of the service's answer, the name lookup included."""
REPLY_BYTES = 4 << 20
"""Enough for the description of the interface, which has the version."""
NO_TOKEN, NO_SCOPE = 401, 403


def examine_service(environ: Mapping[str, str]) -> DoctorSection:
    """Return the findings about the service that the environment names; takes about `LIMIT_S` at most.

    Args:
        environ: For the service's URL and token.
    """
    url, token = environ.get(URL_NAME), environ.get(TOKEN_NAME) or None
    if not url:
        return DoctorSection(
            "service", (("service", f"none ({URL_NAME} is not set): jobs learn from this machine alone"),)
        )
    try:
        client = ServiceClient(url, token, ExchangeLimits(LIMIT_S, REPLY_BYTES))
    except ConfigError as error:
        remedy = f"set {URL_NAME} and {TOKEN_NAME} as the service's operator gave them."
        return DoctorSection("service", (("service", f"not asked: {error}"),), (FoundProblem(str(error), remedy),))
    try:
        return _ask(client, has_token=token is not None)
    finally:
        client.close()


def _ask(client: ServiceClient, *, has_token: bool) -> DoctorSection:
    begin_s = time.monotonic()
    try:
        version = answer_within(LIMIT_S, client.version)
    except ServiceRefusedError as error:
        took = _took(begin_s)
        answer, problem = _refusal(error, has_token=has_token)
        findings = [("url", client.url), ("answers", f"yes, {took}"), ("token", answer)]
        return DoctorSection("service", findings, [problem] if problem else [])
    except StoreError as error:
        remedy = f"start it (`ringtune serve`), mend {URL_NAME}, or unset it: jobs train without the service."
        findings = [("url", client.url), ("answers", f"no, {_took(begin_s)}")]
        return DoctorSection("service", findings, (FoundProblem(str(error), remedy),))
    token = "accepted" if has_token else "none set; the service takes calls without one"
    return DoctorSection(
        "service",
        (("url", client.url), ("answers", f"yes, {_took(begin_s)}"), ("version", version), ("token", token)),
    )


def _refusal(error: ServiceRefusedError, *, has_token: bool) -> tuple[str, FoundProblem | None]:
    """Return the finding about the token that a refusal shows, and the problem, if it is one."""
    if error.status == NO_SCOPE:
        return "accepted, without the scope `read`: version not known, and no recommendations", FoundProblem(
            f"the token in {TOKEN_NAME} may not read: {error}",
            "ask the service's operator for one with the scopes read and report.",
        )
    if error.status == NO_TOKEN and not has_token:
        remedy = f"set {TOKEN_NAME} to a token that `ringtune token create` made there."
        return "none set, and the service wants one", FoundProblem(
            f"{TOKEN_NAME} is not set, and the service refuses", remedy
        )
    if error.status == NO_TOKEN:
        remedy = f"set {TOKEN_NAME} to one that is in force; `ringtune token create` on the service makes one."
        return "not accepted", FoundProblem(f"the service does not accept the token: {error}", remedy)
    return "not known", FoundProblem(
        f"the service refuses: {error}", f"check that {URL_NAME} is the URL of a ringtune service."
    )


def _took(begin_s: float) -> str:
    return f"{(time.monotonic() - begin_s) * 1e3:.0f} ms"
