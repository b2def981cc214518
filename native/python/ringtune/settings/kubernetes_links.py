# SPDX-License-Identifier: Apache-2.0
"""Service links: variables that Kubernetes and Docker set in a container for each service beside it. Pure.

A service called `ringtune` gives RINGTUNE_SERVICE_HOST, RINGTUNE_SERVICE_PORT and `RINGTUNE_PORT=tcp://HOST:PORT`, and
one called `ringtune-service` gives `RINGTUNE_SERVICE_PORT=tcp://HOST:PORT`: the first two are settings of the service.
"""

import re
from collections.abc import Iterator, Mapping

_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://(?P<host>[^/\s]+):(?P<port>[0-9]{1,5})")
_SUFFIX = "_PORT"


def service_links(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names of all service links in an environment.

    A variable that has another value than its link has was set by somebody else, and is none.
    """
    return frozenset(name for name in environ if name.endswith(_SUFFIX) for name in _links_of(name, environ))


def _links_of(port_name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the links of the service whose address a variable has; none if it has no address."""
    address = _ADDRESS.fullmatch(environ[port_name])
    if address is None:
        return
    yield port_name
    service = re.escape(port_name.removesuffix(_SUFFIX))
    host, port = re.escape(address["host"].strip("[]")), re.escape(address["port"])
    forms = (
        (rf"{service}_SERVICE_HOST", host),
        (rf"{service}_SERVICE_PORT", port),
        (rf"{service}_SERVICE_PORT_[A-Z0-9_]+", r"[0-9]{1,5}"),
        (rf"{service}_PORT_[0-9]{{1,5}}_(?:TCP|UDP|SCTP)", _ADDRESS.pattern),
        (rf"{service}_PORT_[0-9]{{1,5}}_(?:TCP|UDP|SCTP)_PROTO", "tcp|udp|sctp"),
        (rf"{service}_PORT_[0-9]{{1,5}}_(?:TCP|UDP|SCTP)_PORT", r"[0-9]{1,5}"),
        (rf"{service}_PORT_[0-9]{{1,5}}_(?:TCP|UDP|SCTP)_ADDR", r"\S+"),
    )
    for name, value in environ.items():
        if any(re.fullmatch(form, name) and re.fullmatch(meant, value) for form, meant in forms):
            yield name
