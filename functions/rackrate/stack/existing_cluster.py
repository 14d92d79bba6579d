"""The checks of parameters against the cluster that a stack is to use. Pure, as in `preflight`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from rackrate.aws import is_ipv6
from rackrate.errors import Fault
from rackrate.plan.capacity import LEAST_NODES
from rackrate.plan.check import ipv6_faults
from rackrate.stack.preflight import (
    alarm_faults,
    allowed_endpoint_faults,
    image_faults,
    name_faults,
)
from rackrate.stack.request import Request
from rackrate_contract.selectors import Selector, Unparsable, parse_tolerations
from rackrate_text.words import listed

Json = Mapping[str, Any]

#: Free addresses that a subnet needs for the interfaces of functions. Functions with the same
#: security groups share interfaces, so a few addresses are enough.
FUNCTION_ADDRESSES = 8


def check_existing_cluster(
    request: Request, cluster: Json | None, subnets: Mapping[str, Json]
) -> list[Fault]:
    """Check an existing cluster that the stack is to use.

    Args:
        request: the stack's parameters.
        cluster: DescribeCluster's cluster, or None when no cluster has that name.
        subnets: entries of DescribeSubnets by id, for the subnets that exist.
    """
    name = request.existing_cluster_name
    where = f"ExistingClusterName {name}"
    if cluster is None:
        fault = Fault(where, "this Region has no such cluster", "check the name and the Region")
        return [*name_faults(request), fault, *_selection_faults(request)]
    faults = [
        *name_faults(request),
        *image_faults(request),
        *allowed_endpoint_faults(request),
        *alarm_faults(request),
        *_selection_faults(request),
        *_demand_faults(request),
    ]
    if cluster["status"] != "ACTIVE":
        faults.append(
            Fault(where, f"the cluster is {cluster['status']}", "wait until it is ACTIVE")
        )
    mode = cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode not in ("API", "API_AND_CONFIG_MAP"):
        faults.append(
            Fault(
                where,
                f"its authentication mode is {mode}, which knows no access entries",
                f"run aws eks update-cluster-config --name {name}"
                " --access-config authenticationMode=API_AND_CONFIG_MAP",
            )
        )
    if is_ipv6(cluster):
        faults += _ipv6_faults(request)
    network = cluster["resourcesVpcConfig"]
    if request.existing_subnet_ids:
        faults += _private_endpoint_faults(request, network, subnets)
    else:
        faults += _public_endpoint_faults(network)
    return faults


def _ipv6_faults(request: Request) -> Iterator[Fault]:
    """The tests of the first run that a cluster of IPv6 cannot have. The run checks the rest."""
    with contextlib.suppress(ValueError):
        for fault in ipv6_faults(json.loads(request.run_on_create)):
            yield Fault(f"RunOnCreate {fault.path}", fault.problem, fault.remedy)


def _selection_faults(request: Request) -> Iterator[Fault]:
    """The faults of what selects the nodes. Only the cluster knows if the arms share a node."""
    selectors = {
        "TreatmentSelector": request.treatment_selector,
        "BaselineSelector": request.baseline_selector,
        "LoadNodeSelector": request.load_selector,
    }
    read: dict[Selector, str] = {}
    for parameter, text in selectors.items():
        if not text and parameter != "TreatmentSelector":
            continue
        try:
            selector = Selector.parse(text)
        except Unparsable as error:
            yield Fault(f"{parameter} {text}", error.problem, error.remedy)
            continue
        if (other := read.setdefault(selector, parameter)) != parameter:
            yield Fault(
                f"{parameter} {text}",
                f"it selects the same nodes as {other}",
                "select other nodes with one of them",
            )
    try:
        parse_tolerations(request.tolerations)
    except Unparsable as error:
        yield Fault(f"Tolerations {request.tolerations}", error.problem, error.remedy)


def _demand_faults(request: Request) -> Iterator[Fault]:
    """The faults of the nodes that a run asks the cluster's autoscaler for."""
    nodes, load = request.on_demand_node_count, request.load_node_count
    if 0 < nodes < LEAST_NODES:
        yield Fault(
            f"OnDemandNodeCount {nodes}",
            f"a pair needs {LEAST_NODES} nodes of an arm",
            f"set it to 0, or to {LEAST_NODES} or more",
        )
    if load and not request.load_selector:
        yield Fault(
            f"LoadNodeCount {load}",
            "no label says which nodes of the cluster are load nodes",
            "set LoadNodeSelector, or LoadNodeCount to 0",
        )
    if nodes and request.load_selector and not load:
        yield Fault(
            f"OnDemandNodeCount {nodes}",
            "a run would ask for 0 nodes that LoadNodeSelector selects",
            "set LoadNodeCount to 1 or more",
        )


def _public_endpoint_faults(network: Json) -> Iterator[Fault]:
    remedy = (
        "name private subnets of the cluster's VPC that reach the AWS APIs, through a NAT gateway"
        " or VPC endpoints"
    )
    if not network.get("endpointPublicAccess"):
        yield Fault("ExistingSubnetIds", "the cluster's endpoint is not public", remedy)
    elif "0.0.0.0/0" not in network.get("publicAccessCidrs", ["0.0.0.0/0"]):
        yield Fault(
            "ExistingSubnetIds",
            f"only {listed(network['publicAccessCidrs'])} may reach the cluster's endpoint, and"
            " functions outside a VPC have no fixed addresses",
            remedy,
        )


def _private_endpoint_faults(
    request: Request, network: Json, subnets: Mapping[str, Json]
) -> Iterator[Fault]:
    if not network.get("endpointPrivateAccess"):
        yield Fault(
            "ExistingSubnetIds",
            "the cluster's endpoint cannot be reached from its VPC",
            "leave it empty, or turn on the cluster's private endpoint",
        )
    for id_ in request.existing_subnet_ids:
        where, subnet = f"ExistingSubnetIds {id_}", subnets.get(id_)
        if subnet is None:
            yield Fault(where, "this Region has no such subnet", "check the id and the Region")
        elif subnet["VpcId"] != network["vpcId"]:
            yield Fault(
                where,
                f"it is in {subnet['VpcId']} and the cluster in {network['vpcId']}",
                "name subnets of the cluster's VPC",
            )
        elif subnet["AvailableIpAddressCount"] < FUNCTION_ADDRESSES:
            yield Fault(
                where,
                f"{subnet['AvailableIpAddressCount']} of its addresses are free and the functions'"
                f" network interfaces may need {FUNCTION_ADDRESSES}",
                "name a subnet with more",
            )
