"""EC2 deletes nothing on which something else depends, and takes a while to delete an endpoint.

A subnet stays while it has a network interface, a security group while an interface has it, and a
VPC while it has security groups besides the default one (API reference, DeleteSubnet,
DeleteSecurityGroup and DeleteVpc). moto deletes them all. An interface endpoint keeps its network
interfaces until it is deleted, which takes minutes on AWS.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import EC2Backend

#: How long EC2 takes to delete an interface endpoint.
ENDPOINT_SECONDS = 1.0


_moto_delete_endpoints = EC2Backend.delete_vpc_endpoints


def check_subnet(backend: EC2Backend, subnet_id: str) -> None:
    if any(interface.subnet.id == subnet_id for interface in list(backend.enis.values())):
        raise DependencyViolationError(
            f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
        )


def check_security_group(
    backend: EC2Backend, name: str | None = None, group_id: str | None = None
) -> None:
    holders = [
        *(group.id for each in list(backend.enis.values()) for group in each.group_set),
        # moto gives an endpoint's interfaces another group.
        *(
            group
            for each in list(backend.vpc_end_points.values())
            if each.state != "deleted"
            for group in each.security_group_ids or ()
        ),
    ]
    if group_id in holders:
        raise DependencyViolationError(f"resource {group_id} has a dependent object")


def check_vpc(backend: EC2Backend, vpc_id: str) -> None:
    if any(group.name != "default" for group in list(backend.groups[vpc_id].values())):
        raise DependencyViolationError(
            f"The vpc '{vpc_id}' has dependencies and cannot be deleted."
        )


def release_interface(backend: EC2Backend, nat_gateway_id: str) -> None:
    """Delete the network interface of a NAT gateway, which moto keeps."""
    backend.enis.pop(backend.nat_gateways[nat_gateway_id]._eni.id, None)


def delete_endpoints(self: EC2Backend, vpce_ids: list[str] | None = None) -> None:
    for identity in vpce_ids or []:
        endpoint = self.vpc_end_points.get(identity)
        if endpoint and str(endpoint.vpc_endpoint_type).lower() == "interface":
            endpoint.state = "deleting"
            begun: Any = (self, [identity])
            threading.Timer(ENDPOINT_SECONDS, _moto_delete_endpoints, begun).start()
        else:
            _moto_delete_endpoints(self, [identity])
