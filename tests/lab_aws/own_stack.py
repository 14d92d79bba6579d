"""The project's own stack in a Region without nodes, and its updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import stack
from lab.tests.aws.region import (
    CAPABILITIES,
    Lab,
    allow,
    group_of_another_account,
    parameter_list,
)
from tests.lab_aws.changes import Change
from tests.lab_aws.kubernetes_api import KubernetesApi

_STACK = "AWS::CloudFormation::Stack"
#: An image that nobody pulls here.
IMAGE = f"registry.example.com/tools@sha256:{0:064x}"


def packaged(lab: Lab, directory: Path) -> dict[bool, str]:
    """Build templates and functions as a user does. Returns the URLs of the root templates.

    That for an existing cluster is under True.
    """
    status = {**lab.status, "kubeconfig": str(directory / "kubeconfig")}
    roots = {False: stack.OWN_CLUSTER, True: stack.EXISTING_CLUSTER}
    for root in roots.values():
        stack.build(root)
    return {existing: stack.package(status, root).url for existing, root in roots.items()}


@dataclass
class Outcome:
    """How an update ended: the stack's status, and why each resource of the root failed."""

    status: str
    reasons: dict[str, str]


@dataclass
class OwnStack:
    """A stack of the root template."""

    lab: Lab
    api: KubernetesApi
    url: str
    name: str
    given: Mapping[str, str] = field(default_factory=dict)
    #: All parameters, to which a test brings the stack before a change.
    home: dict[str, str] = field(default_factory=dict)
    #: The values of what changes refer to, such as {topic}.
    values: Mapping[str, str] = field(default_factory=dict)

    def create(self) -> OwnStack:
        """Create the stack and wait until it is complete."""
        response = self._client.create_stack(
            StackName=self.name,
            TemplateURL=self.url,
            Capabilities=CAPABILITIES,
            Parameters=parameter_list(self.given),
        )
        outcome = self._settled(response["StackId"])
        assert outcome.status == "CREATE_COMPLETE", outcome
        return self

    def become(self, parameters: Mapping[str, str]) -> None:
        """Bring the stack to these parameters."""
        now = self.parameters()
        changes = {name: value for name, value in parameters.items() if now[name] != value}
        if changes:
            outcome = self.update(changes)
            assert outcome.status == "UPDATE_COMPLETE", outcome

    @property
    def _client(self) -> Any:
        return self.lab.client("cloudformation")

    def _described(self, section: str, key: str, value: str) -> dict[str, str]:
        (description,) = self._client.describe_stacks(StackName=self.name)["Stacks"]
        return {one[key]: one[value] for one in description[section]}

    def parameters(self) -> dict[str, str]:
        """The parameters as they are now."""
        return self._described("Parameters", "ParameterKey", "ParameterValue")

    def outputs(self) -> dict[str, str]:
        """The outputs as they are now."""
        return self._described("Outputs", "OutputKey", "OutputValue")

    def update(self, changes: Mapping[str, str], url: str | None = None) -> Outcome:
        """Give parameters other values and wait for the end of it.

        With a URL the stack gets that template. Its parameters keep their values, as with `sam
        deploy`.
        """
        before = len(self._events(self.name))
        template: dict[str, Any] = {"TemplateURL": url} if url else {"UsePreviousTemplate": True}
        unchanged = self.parameters().keys() - changes.keys()
        if url:
            summary = self._client.get_template_summary(TemplateURL=url)["Parameters"]
            unchanged &= {each["ParameterKey"] for each in summary}
        response = self._client.update_stack(
            StackName=self.name,
            **template,
            Capabilities=CAPABILITIES,
            Parameters=[
                *parameter_list(changes),
                *({"ParameterKey": name, "UsePreviousValue": True} for name in unchanged),
            ],
        )
        return self._settled(response["StackId"], before)

    def _settled(self, stack_id: str, before: int = 0) -> Outcome:
        status = self.lab.settled(stack_id)["StackStatus"]
        events = self._events(stack_id)
        reasons = {
            event["LogicalResourceId"]: str(event.get("ResourceStatusReason", ""))
            for event in events[: len(events) - before]
            if event["ResourceStatus"].endswith("FAILED")
        }
        for name in list(reasons):
            inner = [one for one in self._resources(stack_id) if one["LogicalResourceId"] == name]
            if inner and inner[0]["ResourceType"] == _STACK:
                for event in reversed(self._events(inner[0]["PhysicalResourceId"])):
                    if event["ResourceStatus"].endswith("FAILED"):
                        where = f"{name}/{event['LogicalResourceId']}"
                        reasons[where] = str(event.get("ResourceStatusReason", ""))
        return Outcome(str(status), reasons)

    def _events(self, stack_id: str) -> list[dict[str, Any]]:
        pages = self._client.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        return [event for page in pages for event in page["StackEvents"]]

    def _resources(self, stack_id: str) -> list[dict[str, Any]]:
        pages = self._client.get_paginator("list_stack_resources").paginate(StackName=stack_id)
        return [
            one
            for page in pages
            for one in page["StackResourceSummaries"]
            if one["ResourceStatus"] != "DELETE_COMPLETE"
        ]

    def resources(self) -> dict[str, str]:
        """The physical id of every resource by its path, such as Network/Vpc."""
        result = {}
        for one in self._resources(self.name):
            name, identity = one["LogicalResourceId"], one["PhysicalResourceId"]
            result[name] = identity
            if one["ResourceType"] == _STACK:
                inner = self._resources(identity)
                result |= {
                    f"{name}/{r['LogicalResourceId']}": r["PhysicalResourceId"] for r in inner
                }
        return result

    def results(self) -> dict[str, Any]:
        """The names of the table and the bucket, and what is in them of runs."""
        outputs = self.outputs()
        table, bucket = outputs["TableName"], outputs["BucketName"]
        items = self.lab.client("dynamodb").scan(TableName=table)["Items"]
        listed = (
            self.lab.client("s3").list_objects_v2(Bucket=bucket, Prefix="runs/").get("Contents", [])
        )
        return {table: [item["sk"]["S"] for item in items], bucket: [o["Key"] for o in listed]}

    def nodes(self) -> dict[str, frozenset[str]]:
        """The instances of each arm's node groups."""
        eks, outputs = self.lab.client("eks"), self.outputs()
        if "TreatmentNodeGroups" not in outputs:
            return {}
        recorded = self.lab.backend.clusters[outputs["ClusterName"]]
        assert eks.describe_cluster(name=outputs["ClusterName"])["cluster"]["status"] == "ACTIVE"
        return {
            arm: frozenset(
                spec.instance_id
                for spec in list(recorded.nodes.values())
                if spec.labels.get("eks.amazonaws.com/nodegroup")
                in outputs.get(f"{title}NodeGroups", "").split(",")
            )
            for arm, title in (("treatment", "Treatment"), ("baseline", "Baseline"))
        }


def stacks(
    lab: Lab, api: KubernetesApi, urls: Mapping[bool, str], name: str = "own", **zones: str
) -> dict[bool, OwnStack]:
    """A stack with a cluster of its own, and under True one that uses this cluster.

    Each has a result. `zones` are parameters of the first stack.
    """
    lab.backend.endpoint = api.url
    parameters = {
        "ToolImage": IMAGE,
        "KubernetesVersion": "1.35",
        "AvailabilityZone": "us-east-1a",
        **zones,
    }
    own = OwnStack(lab, api, urls[False], name, parameters).create()
    recorded = lab.backend.clusters[own.outputs()["ClusterName"]]
    api.nodes = lambda: list(recorded.nodes.values())
    parameters = {
        "ToolImage": IMAGE,
        "ExistingClusterName": own.outputs()["ClusterName"],
        "Namespace": f"guest-of-{name}",
        "RetainResults": "false",
    }
    guest = OwnStack(lab, api, urls[True], f"guest-of-{name}", parameters).create()
    for created in (own, guest):
        outputs = created.outputs()
        item = {"pk": {"S": "run#1"}, "sk": {"S": "run"}}
        lab.client("dynamodb").put_item(TableName=outputs["TableName"], Item=item)
        key = "runs/1/results.json"
        lab.client("s3").put_object(Bucket=outputs["BucketName"], Key=key, Body=b"{}")
        created.home = created.parameters()
    return {False: own, True: guest}


def stacks_to_change(
    lab: Lab, api: KubernetesApi, urls: Mapping[bool, str]
) -> dict[bool, OwnStack]:
    """Both stacks. The values of the changes that they are to try are in the Region."""
    result = stacks(lab, api, urls)
    result[False].values = result[True].values = values_of(lab, result[False])
    return result


def values_of(lab: Lab, own: OwnStack) -> dict[str, str]:
    """What changes refer to, such as {topic}; made in the Region."""
    ec2, zone = lab.client("ec2"), own.outputs()["Zone"]
    ec2.create_placement_group(GroupName="made-by-others", Strategy="cluster")
    reservation = ec2.create_capacity_reservation(
        InstanceType="c5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=zone,
        InstanceCount=2,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    resources = own.resources()
    return {
        "reservation": reservation,
        "shared_group": group_of_another_account().id,
        "boundary": lab.policy(allow("*", "*")),
        "topic": lab.client("sns").create_topic(Name="pager")["TopicArn"],
        "subnet": resources["Network/PrivateSubnet"],
        "other_subnet": resources["Network/OtherPrivateSubnet"],
    }


def check(stack: OwnStack, changes: Sequence[Change]) -> None:
    """Make changes in one update. Fails when anything happens that they do not announce."""
    refused = any(change.outcome == "refused" for change in changes)
    before, resources, nodes = stack.parameters(), stack.resources(), stack.nodes()
    results = stack.results()
    outcome = stack.update({k: v for change in changes for k, v in change.after.items()})
    stored = stack.results()
    assert list(stored) == list(results)
    assert all(set(names) <= set(stored[store]) for store, names in results.items())
    if refused:
        assert outcome.status == "UPDATE_ROLLBACK_COMPLETE", outcome
        assert set(outcome.reasons) == {"Preflight"}
        for change in changes:
            old, new = before[change.parameter], change.after[change.parameter]
            words = f"{change.parameter} {old or '(empty)'} -> {new or '(empty)'}: "
            assert words in outcome.reasons["Preflight"]
        assert (stack.parameters(), stack.resources(), stack.nodes()) == (before, resources, nodes)
        return
    assert outcome.status == "UPDATE_COMPLETE", outcome
    assert not outcome.reasons
    now, later = stack.resources(), stack.nodes()
    replaced = {path for path, identity in now.items() if resources.get(path, identity) != identity}
    assert replaced == set().union(*(change.replaces for change in changes)), replaced
    rolled = {arm for arm, names in nodes.items() if not names & later[arm]}
    assert rolled == set().union(*(change.nodes for change in changes)), rolled
    assert all(names <= later[arm] for arm, names in nodes.items() if arm not in rolled)
