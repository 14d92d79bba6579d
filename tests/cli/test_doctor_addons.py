"""The doctor's findings on add-ons, the instance type and prices, from what AWS answers."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from rackrate_cli.diagnosis.access import prices_check
from rackrate_cli.diagnosis.addons import addon_check
from rackrate_cli.diagnosis.instances import instance_check

from lab.aws.eks.validation import addon_schema

SETTINGS = json.dumps({"podDisruptionBudget": {"enabled": False}})


def addon(**fields: Any) -> dict[str, Any]:
    """CoreDNS as DescribeAddon returns it."""
    return {
        "addonName": "coredns",
        "addonVersion": "v1.12.1-eksbuild.2",
        "status": "ACTIVE",
        "health": {"issues": []},
        "configurationValues": SETTINGS,
    } | fields


def test_settings_that_the_newest_version_takes_are_ok() -> None:
    finding = addon_check(addon(), "v1.13.1-eksbuild.1", json.dumps(addon_schema("coredns")))
    assert finding.state == "ok"
    assert "v1.13.1-eksbuild.1" in finding.finding


def test_settings_that_the_newest_version_refuses_are_a_warning_that_names_the_setting() -> None:
    settings = json.dumps({"podDisruptionBudgets": {"enabled": False}})
    schema = json.dumps(addon_schema("coredns"))
    finding = addon_check(addon(configurationValues=settings), "v1.13.1-eksbuild.1", schema)
    assert finding.state == "warning"
    assert "podDisruptionBudgets" in finding.finding
    assert "v1.12.1-eksbuild.2" in finding.remedy


@pytest.mark.parametrize("schema", ["no JSON", '{"type": 7}'])
def test_a_schema_that_cannot_be_read_proves_nothing(schema: str) -> None:
    finding = addon_check(addon(), "v1.13.1-eksbuild.1", schema)
    assert finding.state == "unknown"


def test_settings_are_unknown_with_a_remedy_where_jsonschema_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    finding = addon_check(addon(), "v1.13.1-eksbuild.1", json.dumps(addon_schema("coredns")))
    assert finding.state == "unknown"
    assert "rackrate[doctor]" in finding.remedy


def test_an_addon_without_a_schema_is_unknown_only_if_it_has_settings() -> None:
    assert addon_check(addon(), "v2", None).state == "unknown"
    assert addon_check(addon(configurationValues=""), "v2", None).state == "ok"


def test_an_addons_issues_are_quoted() -> None:
    issue = {"code": "InsufficientNumberOfReplicas", "message": "no node", "resourceIds": []}
    finding = addon_check(addon(status="DEGRADED", health={"issues": [issue]}), "v2", None)
    assert finding.state == "failed"
    assert "InsufficientNumberOfReplicas: no node" in finding.finding
    assert addon_check(addon(status="UPDATING"), "v2", None).state == "warning"


def test_an_instance_type_without_bandwidth_is_unknown_and_one_that_bursts_has_advice() -> None:
    def described(**card: float) -> dict[str, Any]:
        return {"InstanceType": "c5.large", "NetworkInfo": {"NetworkCards": [card]}}

    bursts = instance_check(described(BaselineBandwidthInGbps=0.75, PeakBandwidthInGbps=10))
    assert (bursts.state, bool(bursts.remedy)) == ("ok", True)
    assert "0.75 Gbit/s baseline, 10 Gbit/s peak" in bursts.finding
    steady = instance_check(described(BaselineBandwidthInGbps=50, PeakBandwidthInGbps=50))
    assert (steady.state, steady.remedy) == ("ok", "")
    two = {"NetworkCards": [{"BaselineBandwidthInGbps": 9, "PeakBandwidthInGbps": 9}, {}]}
    finding = instance_check({"InstanceType": "c6in.32xlarge", "NetworkInfo": two}).finding
    assert finding.endswith("9 Gbit/s peak, of the first of its 2 network cards")
    assert instance_check(described()).state == "unknown"
    assert instance_check({"InstanceType": "x9.new"}).state == "unknown"


def test_an_estimate_whose_prices_are_not_the_apis_is_a_warning() -> None:
    def planned(**cost: Any) -> dict[str, Any]:
        return {"estimates": {"cost": {"region": "us-east-1", "unknown": [], "notes": []} | cost}}

    assert prices_check(planned()).state == "ok"
    refused = prices_check(planned(notes=["the API answered AccessDeniedException"]))
    assert refused.state == "warning"
    assert "AccessDeniedException" in refused.finding
    missing = prices_check(planned(unknown=["EC2 x9.new, 4 nodes"]))
    assert (missing.state, "EC2 x9.new" in missing.finding) == ("warning", True)
    assert prices_check({"arms": []}).state == "unknown"
