"""A stack of an earlier release becomes one of this release, and keeps its cluster and results."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab import stack
from lab.tests.aws.region import Lab
from tests.lab_aws.kubernetes_api import served
from tests.lab_aws.own_stack import OwnStack, packaged, stacks

pytestmark = pytest.mark.rest

#: The last release with one root template for both kinds of clusters.
EARLIER = "92769ef"
#: What an upgrade may not replace.
KEPT = {
    *("Results/KeptTable", "Results/KeptBucket", "Results/DroppedTable", "Results/DroppedBucket"),
    *("Benchmark/StateMachine", "Campaign/StateMachine"),
    *("Cluster/Cluster", "Network/Vpc", "Network/PrivateSubnet", "Network/OtherPrivateSubnet"),
    *("TreatmentNodes/NodeGroup", "BaselineNodes/NodeGroup"),
}


def earlier_release(lab: Lab, directory: Path) -> str:
    """Build the earlier release from this repository's history. Returns its template's URL."""
    archive = ["git", "-C", str(stack.REPOSITORY), "archive", EARLIER]
    done = subprocess.run(archive, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the history of this clone does not have {EARLIER}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(directory, filter="data")
    with pytest.MonkeyPatch.context() as patch:
        build = directory / ".aws-sam" / "build"
        patch.setattr(stack, "REPOSITORY", directory)
        patch.setattr(stack, "SAM_SETTINGS", directory / "samconfig.toml")
        patch.setattr(stack, "BUILD_DIRECTORIES", dict.fromkeys(stack.BUILD_DIRECTORIES, build))
        return packaged(lab, directory)[False]


@pytest.fixture(scope="module")
def earlier(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, OwnStack]]:
    """A stack of the earlier release with a cluster of its own, and one that uses this cluster."""
    url = earlier_release(lab, tmp_path_factory.mktemp("earlier"))
    with served() as api:
        yield stacks(
            lab, api, {False: url, True: url}, "earlier", OtherAvailabilityZone="us-east-1b"
        )


@pytest.fixture(scope="module")
def urls(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    """The root templates of this release."""
    return packaged(lab, tmp_path_factory.mktemp("package"))


@pytest.mark.parametrize(
    ("existing", "changes", "reason"),
    [
        (True, {}, "update it with existing-cluster.yaml"),
        (False, {"ExistingClusterName": "earlier"}, "update it with template.yaml"),
    ],
)
def test_the_template_for_the_other_kind_of_cluster_is_refused(
    earlier: dict[bool, OwnStack],
    urls: dict[bool, str],
    existing: bool,
    changes: dict[str, str],
    reason: str,
) -> None:
    own = earlier[existing]
    before = own.resources()
    outcome = own.update(changes, url=urls[not existing])
    assert outcome.status == "UPDATE_ROLLBACK_COMPLETE", outcome
    assert reason in outcome.reasons["Preflight"]
    assert own.resources() == before


def test_a_value_of_a_removed_parameter_is_refused_with_its_name(
    earlier: dict[bool, OwnStack], urls: dict[bool, str]
) -> None:
    own = earlier[False]
    home = own.parameters()
    own.become({"ControlPlaneLogs": "audit", "AlarmEmail": "someone@example.com"})
    outcome = own.update({}, url=urls[False])
    assert outcome.status == "UPDATE_ROLLBACK_COMPLETE", outcome
    assert "ControlPlaneLogs audit: this release" in outcome.reasons["Preflight"]
    assert "AlarmEmail someone@example.com: this release" in outcome.reasons["Preflight"]
    own.become(home)


@pytest.mark.parametrize("existing", [True, False])
def test_an_upgrade_replaces_neither_cluster_nor_results_nor_state_machines(
    earlier: dict[bool, OwnStack], urls: dict[bool, str], existing: bool
) -> None:
    own = earlier[existing]
    before, results, nodes = own.resources(), own.results(), own.nodes()
    outcome = own.update({}, url=urls[existing])
    assert outcome.status == "UPDATE_COMPLETE", outcome
    assert not outcome.reasons
    after = own.resources()
    retained = KEPT & before.keys()
    assert {name: after.get(name) for name in retained} == {name: before[name] for name in retained}
    assert own.results() == results
    assert own.nodes() == nodes
    # The next update needs nothing of the earlier release.
    again = replace(own, url=urls[existing]).update({"LogRetentionDays": "7"})
    assert again.status == "UPDATE_COMPLETE", again
