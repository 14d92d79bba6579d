"""Stacks of .taskcat.yml, deployed in the lab by taskcat; what there is of them is looked at."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client as kubernetes

from lab import stack
from tests.lab import permissions
from tests.lab.account import cluster_logs, holdings
from tests.lab.running import Lab
from tests.taskcat.deploying import Deployment, Taskcat, in_lab

STORE = "/rackrate/taskcat"
GUEST = "existing-cluster"


@dataclass
class Toggles:
    """Deploys the tests of .taskcat.yml in a lab."""

    lab: Lab
    taskcat: Taskcat

    @contextlib.contextmanager
    def deployed(self, test: str, **override: str) -> Iterator[Deployment]:
        """A stack that was created; when it is gone, only its cluster's logs may be left."""
        if test != GUEST and self.lab.has_stack:
            # A lab has one cluster at a time.
            stack.delete(self.lab.status, lambda step: None)
        self._package(test)
        before = holdings(self.lab)
        parameters = {"ToolImage": str(self.lab.status["tools_image"])} | override
        with self.taskcat.deployed(test, parameters_override=parameters) as deployed:
            assert deployed.created, f"{deployed.status}: {deployed.reasons}"
            permissions.remember(self.lab)
            yield deployed
        logs = cluster_logs(deployed.outputs["ClusterName"])
        assert holdings(self.lab) - before == ({logs} if test != GUEST else set())

    def refused(self, test: str, **override: str) -> str:
        """Why a stack was not created, as `sam deploy` prints it: from the root's events only.

        Nothing of the stack may be left.
        """
        self._package(test)
        before = holdings(self.lab)
        with self.taskcat.deployed(test, parameters_override=override) as failed:
            assert not failed.created
            events = self.lab.aws("cloudformation").describe_stack_events(StackName=failed.stack_id)
        assert holdings(self.lab) - before == set()
        return "\n".join(
            event["ResourceStatusReason"]
            for event in events["StackEvents"]
            if event["ResourceStatus"] == "CREATE_FAILED"
        )

    def _package(self, test: str) -> None:
        """Build the template for an existing cluster when a test needs it."""
        if test == GUEST:
            stack.build(stack.EXISTING_CLUSTER)
            stack.package(self.lab.status, stack.EXISTING_CLUSTER)

    def tell(self, **names: str) -> None:
        """Put what only an account's owner can name where taskcat looks for it."""
        for name, value in names.items():
            self.lab.aws("ssm").put_parameter(
                Name=f"{STORE}/{name.replace('_', '-')}",
                Value=value,
                Type="String",
                Overwrite=True,
            )


def toggles_of(lab: Lab, directory: Path) -> Toggles:
    """taskcat for a lab, with an empty directory to write to."""
    return Toggles(lab, in_lab(lab.status, directory))


def nodes(lab: Lab) -> list[kubernetes.V1Node]:
    """The nodes that the cluster has."""
    return list(lab.core.list_node().items)


def run_of(lab: Lab, deployed: Deployment) -> dict[str, Any]:
    """The run that was made while the stack was created, as its results tell."""
    run_id = deployed.outputs["RunOnCreateId"]
    return dict(lab.document(run_id, "results.json", deployed.outputs))


def median(results: Mapping[str, Any], test: str, arm: str) -> float:
    """An arm's median of a test, in the test's unit."""
    (verdict,) = (v for v in results["verdicts"] if v["test"] == test)
    return float(verdict["arm_median" if arm == "treatment" else "baseline_median"])


def disks(lab: Lab) -> list[dict[str, Any]]:
    """The one disk of each launch template, as EBS takes it."""
    ec2 = lab.aws("ec2")
    templates = [
        ec2.describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
        )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        for template in ec2.describe_launch_templates()["LaunchTemplates"]
    ]
    assert templates
    mappings = [mapping for data in templates for mapping in data["BlockDeviceMappings"]]
    assert len(mappings) == len(templates)
    return [mapping["Ebs"] for mapping in mappings]


def functions_in_vpc(lab: Lab, deployed: Deployment) -> set[str]:
    """Where the functions that talk to the cluster run: `private`, `outside`."""
    functions = lab.aws("lambda").get_paginator("list_functions").paginate()
    places = set()
    for function in (f for page in functions for f in page["Functions"]):
        if f"{deployed.name}-Benchmark" in function["FunctionName"]:
            places.add("private" if function.get("VpcConfig", {}).get("SubnetIds") else "outside")
    return places


def name_of_clean_up(lab: Lab, deployed: Deployment) -> str:
    functions = lab.aws("lambda").get_paginator("list_functions").paginate()
    (name,) = (
        function["FunctionName"]
        for page in functions
        for function in page["Functions"]
        if function["FunctionName"].startswith(deployed.name)
        and "-Teardown" in function["FunctionName"]
    )
    return str(name)
