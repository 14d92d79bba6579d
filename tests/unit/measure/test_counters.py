"""The counters of nodes' interfaces, read from the tools' output."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.measure.counters import ALLOWANCES, GAUGES, Counters, ena, traffic
from rackrate.measure.interfaces import Unreadable
from tests.unit import builders
from tests.unit.samples import DATA

TEXT = {path.stem: path.read_text() for path in (DATA / "counters").glob("*.txt")}


def test_only_interfaces_that_leave_the_node_count():
    assert traffic(TEXT["eks-node"]) == {
        "ens5": {
            "rx_bytes": 9_000_000,
            "rx_packets": 7001,
            "rx_dropped": 3,
            "tx_bytes": 2**64 - 1,
            "tx_packets": 8002,
            "tx_dropped": 4,
        },
        "ens6": {
            "rx_bytes": 84,
            "rx_packets": 2,
            "rx_dropped": 0,
            "tx_bytes": 42,
            "tx_packets": 1,
            "tx_dropped": 0,
        },
    }
    assert list(traffic(TEXT["lab-node"])) == ["eth0"]


@pytest.mark.parametrize(
    "name",
    [
        *("lo", "eni1a2b3c4d5e6", "veth12ab", "cali0123", "cni0", "dummy0", "vlan.eth.1"),
        *("kube-ipvs0", "nodelocaldns", "docker0", "br-0a1b", "cilium_host", "lxc12", "flannel.1"),
        *("tun0", "ifb0", "pod-id-link0"),
    ],
)
def test_what_leads_to_pods_or_nowhere_is_left_out(name):
    assert traffic(TEXT["eks-node"].replace("ens6", name)).keys() == {"ens5"}


@pytest.mark.parametrize("name", ["eth0", "eth1", "ens5", "ens160", "enp39s0", "bond0", "eni5"])
def test_what_may_be_a_card_is_kept(name):
    assert traffic(TEXT["eks-node"].replace("ens6", name)).keys() == {"ens5", name}


def test_ena_tells_what_it_held_back_and_what_is_left():
    held_back = dict(zip(ALLOWANCES, (12, 4031, 7, 0, 1), strict=True))
    assert ena(TEXT["ena"]) == held_back | {"conntrack_allowance_available": 136812}


def test_ena_express_is_told_by_the_drivers_that_know_it():
    counters = ena(TEXT["ena-express"])
    assert {name: counters[name] for name in counters if name.startswith("ena_srd")} == {
        "ena_srd_mode": 1,
        "ena_srd_tx_pkts": 90,
        "ena_srd_eligible_tx_pkts": 100,
        "ena_srd_rx_pkts": 80,
        "ena_srd_resource_utilization": 3,
    }


@pytest.mark.parametrize("name", ["veth", "no-statistics", "no-such-device"])
def test_what_is_not_ena_has_no_allowances_and_not_zero_of_them(name):
    assert ena(TEXT[name]) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat: /proc/net/dev: Permission denied",
        TEXT["eks-node"][:400],
        TEXT["eks-node"].replace("9000000", "many"),
        TEXT["eks-node"].replace("9000000", "-9"),
        TEXT["eks-node"].replace("9000000", "9" * 5000),
        TEXT["veth"],
    ],
)
def test_a_text_that_is_something_else_is_refused(text):
    with pytest.raises(Unreadable):
        traffic(text)


lines = st.lists(
    st.one_of(st.sampled_from(sorted(TEXT.values())), st.text(max_size=60)), max_size=4
)


@given(lines)
def test_the_readers_raise_nothing_but_their_own_error_and_invent_no_number(parts):
    text = "\n".join(parts)
    try:
        numbers = list(traffic(text).values())
    except Unreadable:
        numbers = []
    for counts in [*numbers, ena(text)]:
        assert all(str(value) in text for value in counts.values())


@given(st.dictionaries(st.sampled_from((*ALLOWANCES, *GAUGES)), st.integers(0, 2**64 - 1)))
def test_every_value_of_ena_that_is_printed_is_read(values):
    text = "NIC statistics:\n" + "".join(f"     {name}: {n}\n" for name, n in values.items())
    assert ena(text) == values


def srd(sent, eligible, mode=1):
    return {
        "ens5": {
            "ena_srd_mode": mode,
            "ena_srd_tx_pkts": sent,
            "ena_srd_eligible_tx_pkts": eligible,
        }
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": srd(5, 5), "b": srd(0, 0)}, {"a": srd(95, 105), "b": srd(10, 10)}, (100, 110)),
        # A node that was restarted counts from zero.
        ({"a": srd(50, 50), "b": srd(0, 0)}, {"a": srd(3, 4), "b": srd(0, 0)}, (3, 4)),
        ({"a": srd(5, 5), "b": srd(7, 7)}, {"a": srd(5, 5), "b": srd(7, 7)}, (0, 0)),
        # It is unknown unless every node was read twice.
        ({}, {"a": srd(1, 1), "b": srd(1, 1)}, None),
        ({"a": srd(1, 1), "b": srd(1, 1)}, {"a": srd(1, 1)}, None),
        ({"a": {"ens5": {"tx_bytes": 1}}}, {"a": {"ens5": {"tx_bytes": 2}}}, None),
    ],
)
def test_the_use_of_ena_express_is_the_increase_of_all_nodes(before, after, expected):
    (arm,) = Counters(before=before, after=after, note=None).describe(
        [builders.arm("treatment", ["a", "b"], ena_express=True)]
    )
    use = arm.ena_express_use
    assert (use and (use.sent, use.eligible)) == expected
    assert arm.ena_express_unused == (expected == (0, 0))


def test_an_arm_without_ena_express_uses_none():
    counters = Counters(before={"a": srd(0, 0)}, after={"a": srd(9, 9)}, note=None)
    (arm,) = counters.describe([builders.arm("baseline", ["a"])])
    assert arm.ena_express_use is None


HOSTILE = {
    "spaces": " " * 650_000,
    "words and spaces": "a " * 325_000,
    "almost a counter": "bw_in_allowance_exceeded" + " " * 650_000 + "x",
    "colons": ":" * 650_000,
    "a long number": "bw_in_allowance_exceeded: " + "1" * 650_000,
}


def test_no_output_takes_more_than_linear_time():
    # A process of its own, because only a signal interrupts a regular expression.
    program = "import json, signal, sys; signal.alarm(60); sys.path = json.loads(sys.argv[1]);"
    program += "from rackrate.measure.counters import ena;"
    program += "assert not any(map(ena, json.load(sys.stdin)))"
    command = [sys.executable, "-c", program, json.dumps(sys.path)]
    texts = json.dumps(list(HOSTILE.values()))
    assert subprocess.run(command, input=texts, text=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["--help", "../../x", "a" * 16, "é", "a\x1bb"])
def test_a_name_that_no_interface_can_have_is_unreadable(name):
    with pytest.raises(Unreadable):
        traffic(TEXT["eks-node"].replace("ens6", name))


def test_more_interfaces_than_a_node_has_are_unreadable():
    line = next(each for each in TEXT["eks-node"].splitlines() if "ens6" in each)
    more = "\n".join(line.replace("ens6", f"eth{n}") for n in range(1000))
    with pytest.raises(Unreadable):
        traffic(f"{TEXT['eks-node'].rstrip()}\n{more}\n")
