"""A cluster in memory: it keeps created objects, and its pods do what the test scripted.

As in a real cluster, owner references do not cross namespaces, and only the namespace for host
networking accepts pods that use it.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from rackrate.measure import manifests
from rackrate.measure.cluster import Log
from rackrate.measure.starts import awaited
from tests.unit.samples import DATA, HOST_SETTINGS, NODES, node

STARTED, FINISHED = "2026-11-21T08:00:00Z", "2026-11-21T08:00:03Z"
PRINTED = {
    "iperf3": (DATA / "iperf3" / "one-stream.json").read_text(),
    "ping": (DATA / "ping" / "ten-replies.txt").read_text(),
}


def printed(argv: list[str]) -> str:
    """The real tool's output, with the streams and the duration of the command line."""
    argv = awaited(argv)
    text = PRINTED[argv[0]]
    if argv[0] != "iperf3":
        return text
    report = json.loads(text)
    start, end = report["start"]["test_start"], report["end"]
    fields = {
        option: int(argv[argv.index(option) + 1])
        for option in ("--time", "--parallel")
        if option in argv
    }
    start["duration"], start["num_streams"] = fields["--time"], fields.get("--parallel", 1)
    end["streams"] *= start["num_streams"]
    for side in (end["sum_sent"], end["sum_received"]):
        side["bytes"] = round(side["bits_per_second"] * fields["--time"] / 8)
        side["seconds"] = side["end"] = fields["--time"]
    return json.dumps(report)


def test_of(container: str) -> str:
    """The test of a container, whose name ends with the block and the round; or a workload's."""
    return re.sub(r"-\d+-\d+$", "", container)


class FakeCluster:
    """A cluster that answers as `rackrate.measure.cluster.Cluster` does."""

    version = "1.36"
    is_ipv6 = False

    def __init__(self) -> None:
        self.nodes = [
            node(name, {"treatment": "ng-1", "baseline": "ng-2"}[arm])
            for arm, names in NODES.items()
            for name in names
        ]
        self.objects: dict[str, dict[str, Any]] = {}
        #: What the tests and the other containers of pods printed.
        self.logs: dict[tuple[str, str], str] = {}
        self.servers_ready = True
        #: Called with each new client pod. May change or remove it.
        self.on_client = self.succeed
        #: Called with each new pod of a workload's member.
        self.on_member = self.be_ready
        self._uids = itertools.count(1)

    # -- what tests script

    def succeed(self, pod: dict[str, Any]) -> None:
        """Let all tests of a pod succeed and print the real tools' output."""
        self.finish(pod, {})

    def finish(self, pod: dict[str, Any], codes: dict[str, int], **status: str) -> None:
        """Let a pod's tests end with these exit codes, by test; the others succeed."""
        statuses: dict[str, list[dict[str, Any]]] = {"initContainers": [], "containers": []}
        failed = False
        for kind, of_kind in statuses.items():
            for container in pod["spec"][kind]:
                each = container["name"]
                if failed and kind == "containers" and pod["spec"]["initContainers"]:
                    waiting = {"waiting": {"reason": "PodInitializing"}}
                    of_kind.append({"name": each, "state": waiting})
                    continue
                code = next((c for test, c in codes.items() if test_of(each) == test), 0)
                failed = failed or code != 0
                times = {"startedAt": STARTED, "finishedAt": FINISHED}
                of_kind.append({"name": each, "state": {"terminated": {"exitCode": code, **times}}})
                where = (pod["metadata"]["name"], test_of(each))
                self.logs.setdefault(where, printed(container["command"]))
        pod["status"] = {
            "phase": "Failed" if failed else "Succeeded",
            "initContainerStatuses": statuses["initContainers"],
            "containerStatuses": statuses["containers"],
            **status,
        }

    def be_ready(self, pod: dict[str, Any]) -> None:
        """Let a pod's containers run, and be ready."""
        running = {"running": {"startedAt": STARTED}}
        pod["status"] = {
            "phase": "Running",
            "podIP": f"10.0.1.{next(self._uids)}",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": FINISHED}],
            "containerStatuses": [
                {"name": container["name"], "ready": True, "state": running}
                for container in pod["spec"]["containers"]
            ],
        }

    def of_role(self, role: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """The pods of a role, in all namespaces or in one."""
        return [
            thing
            for path, thing in self.objects.items()
            if "/pods/" in path
            and thing["metadata"]["labels"][manifests.ROLE] == role
            and namespace in (None, thing["metadata"]["namespace"])
        ]

    # -- what the functions call

    def list(self, path: str, labels: str = "") -> list[dict[str, Any]]:
        if path == "/api/v1/nodes":
            objects = self.nodes
        else:
            objects = [t for p, t in self.objects.items() if p.rpartition("/")[0] == path]
        required = [pair.split("=", 1) for pair in labels.split(",") if pair]
        return [
            t
            for t in objects
            for own in [t["metadata"].get("labels", {})]
            if all(key in own and value in ([], [own[key]]) for key, *value in required)
        ]

    def get(self, path: str) -> dict[str, Any] | None:
        return self.objects.get(path)

    peek = get

    def create(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        key = f"{path}/{manifest['metadata']['name']}"
        if key in self.objects:
            return self.objects[key]
        # Empty for objects without a namespace.
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        spec = manifest.get("spec", {})
        if spec.get("template", manifest).get("spec", {}).get("hostNetwork"):
            assert namespace == HOST_SETTINGS.host_namespace, "violates PodSecurity restricted"
        meta = {
            **manifest["metadata"],
            "namespace": namespace,
            "uid": f"uid-{next(self._uids)}",
            "creationTimestamp": "2026-11-21T08:00:00Z",
        }
        created = {**manifest, "metadata": meta}
        self.objects[key] = created
        if manifest["kind"] == "DaemonSet":
            self._start_servers(created)
        if manifest["kind"] == "Service":
            created["spec"] = {**spec, "clusterIP": f"172.20.0.{next(self._uids)}"}
        if manifest["kind"] == "Pod":
            created["status"] = {"phase": "Pending"}
            is_member = meta["labels"][manifests.ROLE] == "member"
            (self.on_member if is_member else self.on_client)(created)
        return created

    def label(self, path: str, labels: dict[str, str]) -> None:
        """Add labels to a node."""
        for each in self.nodes:
            if path == f"/api/v1/nodes/{each['metadata']['name']}":
                each["metadata"]["labels"] |= labels

    def replace(self, path: str, manifest: dict[str, Any]) -> None:
        self.objects[path] = manifest

    def _start_servers(self, daemon_set: dict[str, Any]) -> None:
        template, namespace = daemon_set["spec"]["template"], daemon_set["metadata"]["namespace"]
        affinity = template["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        network = "192.0.2" if template["spec"].get("hostNetwork") else "10.0.0"
        for number, manifest in enumerate(self.nodes):
            labels = manifest["metadata"]["labels"]
            if all(labels.get(e["key"]) in e["values"] for e in term["matchExpressions"]):
                name = manifest["metadata"]["name"]
                ready = "True" if self.servers_ready else "False"
                meta = {**template["metadata"], "name": f"server-{name}", "namespace": namespace}
                self.objects[f"/api/v1/namespaces/{namespace}/pods/server-{name}"] = {
                    "metadata": meta,
                    "spec": {**template["spec"], "nodeName": name},
                    "status": {
                        "podIP": f"{network}.{number}",
                        "conditions": [{"type": "Ready", "status": ready}],
                        "containerStatuses": [],
                    },
                }

    def delete(self, path: str, *, foreground: bool = False, at_once: bool = False) -> None:
        removed = self.objects.pop(path, None)
        if removed is not None and foreground:
            namespace = removed["metadata"]["namespace"]
            run = removed["metadata"]["labels"][manifests.RUN]
            self.objects = {
                key: thing
                for key, thing in self.objects.items()
                if thing["metadata"]["namespace"] != namespace
                or thing["metadata"]["labels"].get(manifests.RUN) != run
            }

    def delete_all(self, path: str, labels: str) -> None:
        for thing in self.list(path, labels):
            del self.objects[f"{path}/{thing['metadata']['name']}"]

    def log(
        self, namespace: str, pod: str, container: str, most_bytes: int, *, seconds: float = 30
    ) -> Log | None:
        text = self.logs.get((pod, test_of(container)))
        if text is None:
            return None
        return Log(text[:most_bytes], len(text) <= most_bytes)

    def last_lines(
        self, namespace: str, pod: str, container: str, lines: int, *, timestamps: bool = False
    ) -> str:
        return "\n".join(self.logs.get((pod, container), "").splitlines()[-lines:])

    def watch(self, path, labels, look, done, *, seconds):
        objects = {thing["metadata"]["name"]: thing for thing in self.list(path, labels)}
        return objects, done({name: look(thing) for name, thing in objects.items()})
