"""The stack's parameters are changed on a stack that exists: kept, replaced, or refused in words.

The changes and what they do are in docs/updates.yaml. Here as many as can are made in one update;
`make test-updates` makes each alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.tests.aws.region import Lab
from tests.lab_aws.changes import Change, changes
from tests.lab_aws.kubernetes_api import served
from tests.lab_aws.own_stack import OwnStack, check, packaged, stacks_to_change

pytestmark = pytest.mark.rest


@pytest.fixture(scope="module")
def deployed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, OwnStack]]:
    """A stack with a cluster of its own, and one that uses this cluster."""
    directory: Path = tmp_path_factory.mktemp("package")
    with served() as api:
        yield stacks_to_change(lab, api, packaged(lab, directory))


def of(stack: OwnStack, *names: str) -> list[Change]:
    """The first change of each of these parameters that is not refused."""
    every = [change.filled(stack.values) for change in changes() if change.outcome != "refused"]
    return [next(change for change in every if change.parameter == name) for name in names]


def possible(stack: OwnStack, outcome: str, *, existing: bool, without: str) -> list[Change]:
    """The changes with this outcome that a new stack can make, except those of one parameter.

    Those that cannot be taken back are not among them.
    """
    chosen: dict[str, Change] = {}
    for change in changes():
        change = change.filled(stack.values)
        if (
            (change.outcome, change.existing) == (outcome, existing)
            and change.parameter != without
            and not change.late
            and all(stack.home[name] == value for name, value in change.before.items())
        ):
            chosen.setdefault(change.parameter, change)
    return list(chosen.values())


@pytest.mark.parametrize("existing", [False, True])
def test_every_refused_change_is_named_in_one_message_and_nothing_is_changed(
    deployed: dict[bool, OwnStack], existing: bool
) -> None:
    stack = deployed[existing]
    chosen = possible(stack, "refused", existing=existing, without="ExistingClusterName")
    assert "RetainResults" in {change.parameter for change in chosen}
    check(stack, chosen)
    for change in changes():
        if change.parameter == "ExistingClusterName" and change.existing == existing:
            check(stack, [change])


# The second stack first: its cluster is the other stack's, whose endpoint becomes private.
@pytest.mark.parametrize("existing", [True, False])
def test_what_is_kept_is_kept(deployed: dict[bool, OwnStack], existing: bool) -> None:
    stack = deployed[existing]
    # It needs Observability, which is another of them.
    chosen = possible(stack, "kept", existing=existing, without="AlarmRecipient")
    check(stack, chosen)


def test_the_treatment_arm_moves_to_a_group_of_another_account_by_its_id(
    deployed: dict[bool, OwnStack],
) -> None:
    stack = deployed[False]
    home, group = stack.parameters(), stack.values["shared_group"]
    every = (change.filled(stack.values) for change in changes())
    check(stack, [change for change in every if group in change.after.values()])
    ids = [*stack.nodes()["treatment"]]
    reservations = stack.lab.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
    assert {one["Placement"]["GroupId"] for each in reservations for one in each["Instances"]} == {
        group
    }
    stack.become(home)


def test_nodes_are_replaced_in_node_groups_that_stay(deployed: dict[bool, OwnStack]) -> None:
    stack = deployed[False]
    names = ("TreatmentStrategy", "VolumeSize", "MaxPods", "CostCenter", "KubernetesVersion")
    # These changes would replace the instance outside the cluster too.
    stack.become({"ToolImage": "build", "EndpointInstance": "none"})
    check(stack, of(stack, *names, "EncryptionKey"))
    # The registry was replaced, and the image is in the new one.
    registry = stack.resources()["Image/Repository"]
    assert f"/{registry}:" in stack.outputs()["ToolImage"].replace("@", ":")


def test_node_groups_and_the_namespace_are_replaced_and_the_old_ones_deleted(
    deployed: dict[bool, OwnStack],
) -> None:
    stack = deployed[False]
    stack.become({"NodeCount": "2", "LoadNodeCount": "0"})
    check(stack, of(stack, "InstanceType", "AmiType"))
    cluster = stack.outputs()["ClusterName"]
    groups = stack.lab.client("eks").list_nodegroups(clusterName=cluster)["nodegroups"]
    assert len(groups) == 2
    guest = deployed[True]
    check(guest, of(guest, "Namespace"))
    assert guest.api.namespaces() >= {"other"}
    assert not guest.api.namespaces() & {"guest-of-own", "guest-of-own-host"}
