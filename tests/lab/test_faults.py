"""The lab's faults do what they say, and are taken back exactly."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from lab import daemon
from lab.fabric.caps import links
from lab.fabric.network import FABRIC
from lab.faults import inject
from lab.setup import tools
from tests.lab.running import Lab
from tests.lab.waiting import eventually


def inside(*command: str, node: str = "region") -> str:
    return subprocess.run(
        [*daemon.enter(node), *command], capture_output=True, text=True, check=False, timeout=60
    ).stdout


def fabric() -> tuple[str, str]:
    """The bridges' ports, and the queues of all devices: what a fault must leave as it was."""
    enter = ("nsenter", f"--net=/run/netns/{FABRIC}")
    ports = inside(*enter, "ip", "-oneline", "link")
    return re.sub(r" qlen \d+", "", ports), inside(*enter, "tc", "qdisc")


@dataclass(frozen=True)
class Ping:
    """What ping says. It is the one of the lab's packages, since the machine may have none."""

    received: int
    duplicates: int
    milliseconds: float


def ping(node: str, address: str, *more: str, count: int = 20) -> Ping:
    """Send all packets at once, and wait a second for the last answer.

    ping waits one interval, or twice the longest round trip. With 10 ms between packets an answer
    of a busy machine came later than that and counted as lost.
    """
    output = inside(
        *(*tools.command("ping"), "-q", "-c", str(count), "-l", str(count)),
        *("-i", "1", "-W", "1", *more, address),
        node=node,
    )
    duplicates = re.search(r"\+(\d+) duplicates", output)
    average = re.search(r"= [\d.]+/([\d.]+)/", output)
    received = re.search(r"(\d+) received", output)
    assert received, output
    return Ping(
        int(received[1]),
        int(duplicates[1]) if duplicates else 0,
        float(average[1]) if average else 0.0,
    )


def test_each_fault_of_the_network_has_its_effect_and_leaves_the_fabric_as_it_was(lab: Lab) -> None:
    near, far = lab.nodes(placement_group=True)[0], lab.nodes(placement_group=False)[0]
    address = lab.core.read_node(far).status.addresses[0].address
    before = fabric()
    whole = ping(near, address)
    assert whole.received == 20
    with inject("packets-lost", on=far, rate=0.3):
        assert 20 <= ping(near, address, count=60).received < 60
    with inject("packets-delayed", on=far, delay_ms="20"), inject("racks-duplicated", on=far):
        both = ping(near, address)
        assert both.milliseconds > 40
        assert both.duplicates > 0
    with inject("packets-corrupted", on=far, rate=0.5):
        assert ping(near, address, count=40).received < 40
    with inject("mtu-mismatch", on=far):
        assert ping(near, address, "-s", "1400", count=5).received == 5
        assert ping(near, address, "-s", "4000", count=5).received == 0
    with inject("partition", on=far, direction="in"):
        assert ping(near, address, count=5).received == 0
        assert lab.node_is_ready(far)
    with inject("link-flapping", on=far):
        assert ping(near, address, count=5).received == 0
    # The kernel notes a second later that a link is up again, and may need a moment to use it.
    eventually(lambda: fabric() == before, seconds=10)
    eventually(lambda: ping(near, address).received == 20, seconds=10)


def test_a_killed_program_starts_again_and_its_node_stays_ready(lab: Lab) -> None:
    node = lab.nodes(placement_group=False)[0]
    words = f"--hostname-override={node} "
    kubelet = lab.process(words, name="kubelet")
    etcd = lab.process("--data-dir", name="etcd")
    with inject("kubelet-killed", on=node), inject("etcd-killed"):
        pass
    eventually(lambda: set(lab.processes(words, name="kubelet")) - {kubelet}, seconds=10)
    eventually(lambda: set(lab.processes("--data-dir", name="etcd")) - {etcd}, seconds=10)
    eventually(lambda: lab.node_is_ready(node), seconds=20)


def test_kubelets_that_start_at_the_same_time_have_directories_of_their_own(lab: Lab) -> None:
    kubelets = lab.processes("--hostname-override", name="kubelet")
    stat = ("stat", "--format=%d:%i", f"{daemon.KUBELET_DIRECTORY}/device-plugins/kubelet.sock")
    inodes = [inside("nsenter", "--target", str(pid), "--mount", *stat) for pid in kubelets]
    assert len(set(inodes)) == len(kubelets) >= 2


def test_a_fault_ends_with_the_command_that_was_killed(lab: Lab) -> None:
    node = lab.nodes(placement_group=False)[0]
    device = next(link.device for link in links() if link.node == node)
    enter = ("nsenter", f"--net=/run/netns/{FABRIC}")

    def is_up() -> bool:
        return "state UP" in inside(*enter, "ip", "link", "show", "dev", device)

    command = subprocess.Popen(
        [sys.executable, "-m", "lab", "fault", "link-flapping", "--on", node],
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: not is_up(), seconds=10)
    command.send_signal(signal.SIGKILL)
    command.wait()
    eventually(is_up, seconds=20)
    eventually(lambda: lab.node_is_ready(node), seconds=20)


def test_a_node_that_is_lost_has_no_program_and_is_ready_again_when_the_fault_is_over(
    lab: Lab,
) -> None:
    node = lab.nodes(placement_group=False)[0]
    address = lab.core.read_node(node).status.addresses[0].address
    with inject("node-lost", on=node):
        listed = inside("ps", "-ww", "-eo", "args=").splitlines()
        assert not [line for line in listed if "/kubelet " in line and node in line]
        assert not [line for line in listed if "/containerd " in line and node in line]
        assert not [line for line in listed if "containerd-shim" in line and node in line]
        # The namespace of the control plane has a route to every node.
        assert ping("region", address, count=3).received == 0
        taken_back = datetime.now(UTC).replace(microsecond=0)
    assert lab.process(f"--hostname-override={node} ", name="kubelet")
    # What its kubelet says now, not what it said before the fault.
    (ready,) = (c for c in lab.core.read_node(node).status.conditions if c.type == "Ready")
    assert ready.status == "True"
    assert ready.last_heartbeat_time >= taken_back
    assert ping("region", address, count=3).received == 3
