"""A node's kubelet applies the settings of its user data, except those that the lab needs."""

from __future__ import annotations

import ipaddress

import pytest

from lab.errors import LabError
from lab.nodes import kubelet

BLOCK = ipaddress.IPv4Network("10.0.1.0/26")
OWN = {
    "maxPods": 29,
    "cgroupDriver": "cgroupfs",
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%"},
}


def test_what_is_asked_goes_over_the_labs_own_and_keeps_the_rest() -> None:
    requested = {
        "maxPods": 12,
        "allowedUnsafeSysctls": ["net.core.somaxconn"],
        "evictionHard": {"memory.available": "200Mi"},
    }
    result = kubelet.configuration(OWN, requested, BLOCK)
    assert result["maxPods"] == 12
    assert result["allowedUnsafeSysctls"] == ["net.core.somaxconn"]
    assert result["evictionHard"] == {"memory.available": "200Mi", "nodefs.available": "0%"}


def test_fields_the_lab_needs_stay_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    result = kubelet.configuration(OWN, {"cgroupDriver": "systemd"}, BLOCK)
    assert result["cgroupDriver"] == "cgroupfs"
    assert "cgroupDriver" in caplog.text


def test_more_pods_than_a_block_has_addresses_are_refused_with_the_most() -> None:
    assert kubelet.pod_addresses(BLOCK) == 60
    assert kubelet.configuration(OWN, {"maxPods": 60}, BLOCK)["maxPods"] == 60
    with pytest.raises(LabError, match=r"maxPods is 61.*at most 60"):
        kubelet.configuration(OWN, {"maxPods": 61}, BLOCK)


def test_a_flag_cannot_get_round_the_limit_or_the_labs_own_fields() -> None:
    fields, flags = kubelet.split_flags(
        ["--max-pods=99", "--cgroup-driver=systemd", "--node-ip=10.9.9.9", "--v=4"]
    )
    assert flags == ["--v=4"]
    with pytest.raises(LabError):
        kubelet.configuration(OWN, fields, BLOCK)
    with pytest.raises(LabError, match="needs a number"):
        kubelet.split_flags(["--max-pods=many"])
