"""The check of the endpoints outside the cluster that arms of a plan name. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from rackrate.plan.arms import ArmChoice
from rackrate.plan.faults import Faults, shown
from rackrate.plan.fields import Direction
from rackrate.settings import INSTANCE, Endpoints
from rackrate.tools.base import TestBase
from rackrate_contract.arms import Endpoint
from rackrate_text.words import listed

#: An address, in brackets or without a colon, with or without a port.
_WRITTEN = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::(\d{1,5}))?", re.ASCII)


class NotAllowed(ValueError):
    """An endpoint that a plan may not name; its arguments are the problem and the remedy."""


def resolve(written: str, endpoints: Endpoints) -> Endpoint:
    """The endpoint that a plan names.

    Args:
        written: as in the plan.
        endpoints: what the stack allows.

    Raises:
        NotAllowed: it is no endpoint, or the stack does not allow it.
    """
    if written == INSTANCE:
        if endpoints.instance is None:
            raise NotAllowed(
                "the stack has no endpoint instance",
                "update the stack with EndpointInstance=outside or in-group, or write an address",
            )
        return endpoints.instance
    match = _WRITTEN.fullmatch(written)
    host, port = (match[1] or match[2], match[3]) if match else (written, None)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise NotAllowed(
            f"{shown(written)} is no IP address with or without a port",
            f"write {INSTANCE!r}, or such as 10.0.3.5, 10.0.3.5:5201 or [fd00::5]:5201",
        ) from None
    if port is not None and not 0 < int(port) < 65_536:
        raise NotAllowed(f"{port} is no port", "write one from 1 to 65535, or none")
    if not any(address in ipaddress.ip_network(allowed) for allowed in endpoints.allowed):
        none = listed(endpoints.allowed, "or") or "no endpoint"
        raise NotAllowed(
            f"the stack allows {none}, not {address}",
            f"update the stack with {address}/{address.max_prefixlen}, or a range that contains it,"
            " in AllowedEndpoints",
        )
    at = f"[{address}]" if port and address.version == 6 else str(address)
    return Endpoint(
        name=f"{at}:{int(port)}" if port else at,
        address=str(address),
        port=int(port) if port else None,
    )


def check_endpoints(
    arms: Mapping[str, ArmChoice],
    tests: Sequence[TestBase],
    direction: Direction,
    endpoints: Endpoints,
    faults: Faults,
    *,
    is_ipv6: bool,
) -> None:
    """Report endpoints that a plan may not name, or not with its tests and other fields.

    Args:
        arms: the arms by their path in the plan.
        tests: the plan's tests.
        direction: the plan's direction.
        endpoints: what the stack allows.
        faults: where faults are added.
        is_ipv6: whether the pods have IPv6 addresses only.
    """
    named = {path: arm for path, arm in arms.items() if arm.endpoint is not None}
    cannot = listed(test.name for test in tests if not test.to_endpoint)
    tools = {test.tool: test.name for test in tests if test.server is not None}
    for path, arm in named.items():
        at = f"{path}.endpoint"
        try:
            endpoint = resolve(arm.endpoint or "", endpoints)
        except NotAllowed as error:
            faults.add(at, *error.args)
            continue
        if ":" in endpoint.address and not is_ipv6:
            faults.add(at, "is an IPv6 address, and the cluster's pods have none", "write IPv4")
        if endpoint.port is not None and len(tools) > 1:
            of = listed(f"{test} ({tool})" for tool, test in tools.items())
            faults.add(at, f"one port serves one tool, not {of}", "write no port, or one tool")
        if cannot:
            problem = f"{cannot} cannot measure against an endpoint"
            faults.add(at, problem, f"leave {cannot} out of the tests, or the endpoint")
        for field, needed in (("server_network", "pod"), ("via", "pod"), ("pairs", "any")):
            if getattr(arm, field) != needed:
                problem = "says something of the run's server pods, and an endpoint replaces them"
                faults.add(f"{path}.{field}", problem, "leave it out, or the endpoint")
    if named and direction in ("reverse", "both"):
        remedy = "write 'forward', and \"reverse\": true in a test of iperf3 or iperf"
        faults.add("direction", "an endpoint cannot be the client", remedy)
