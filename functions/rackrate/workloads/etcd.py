"""Commits of an etcd cluster, measured by etcd's own benchmark.

Project: [etcd](https://etcd.io). A put is answered once a majority of the members has it, so its
time contains a round trip from the load pod to the leader, and one from the leader to the next
member.

- **Reported time**: from sending a put until its answer. With one client there is one put at a
  time, so the time is etcd's commit latency.
- **Values**: the median and the 99th percentile, which etcd's benchmark takes from the sorted times
  of all puts, and the puts per second and member.
- **Samples**: none, because the benchmark does not print single times.
- **The leader**: all clients send to it (`--target-leader`). Which member it is, etcd decides by an
  election. It stays the leader unless it is lost.
- **Data in memory**: etcd syncs each put to its disk before it answers. In memory, which is the
  default, that takes no time, so that the network is the result and not the disk. With `storage`
  `node`, or a volume, the disk is part of the result.
- A trial in which a put failed has no value.
- etcd keeps the old values of a key, so its data grow with each put. They may take half of the
  memory that a member reserves if they are there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    REQUESTS,
    SECONDS,
    SHORT_REASON,
    Detail,
    Measurement,
    Metric,
    ParseError,
    Port,
    refusal,
)
from rackrate.workloads.base import (
    DATA,
    StorageField,
    WorkloadTest,
    operations,
    printed_latencies,
)

#: etcd's own ports: for clients, and for the other members.
CLIENTS, PEERS = 2379, 2380
#: How long a put takes with data in memory and with a disk, to estimate a trial's duration.
_SECONDS_PER_PUT, _WITH_A_DISK = 0.002, 0.01
#: Two values have to lie beyond the 99th percentile.
_LEAST_PUTS = 200
_NUMBER = r"(\d{1,12}(?:\.\d{1,25})?(?:e[-+]\d{1,2})?)"
_FIGURES = {
    name: re.compile(rf"^[ \t]*{label}:[ \t]+{_NUMBER}\b", re.MULTILINE | re.ASCII)
    for name, label in {
        "seconds": "Total",
        "max_seconds": "Slowest",
        "min_seconds": "Fastest",
        "mean_seconds": "Average",
        "rate": "Requests/sec",
    }.items()
}
_PERCENTILE = re.compile(rf"^[ \t]*([\d.]{{1,5}})% in {_NUMBER} secs\.", re.MULTILINE | re.ASCII)
_BUCKET = re.compile(rf"^[ \t]*{_NUMBER} \[(\d{{1,12}})\][ \t]*\|", re.MULTILINE | re.ASCII)
_ERRORS = re.compile(r"^Error distribution:\n\s*\[(\d{1,12})\]\s+([^\n]{1,300})", re.MULTILINE)


class Test(WorkloadTest):
    """An etcd cluster under puts; its values are the latency of commits, and their rate."""

    ports: ClassVar[tuple[Port, ...]] = (Port(CLIENTS), Port(PEERS))
    #: It answers with an error until the cluster has a leader.
    ready_path: ClassVar[str | None] = "/health"
    most_members: ClassVar[int] = 7
    programs: ClassVar[Mapping[str, str]] = {
        "etcd": "etcd-server",
        "benchmark": "go.etcd.io/etcd/v3/tools/benchmark",
    }
    details: ClassVar[tuple[Detail, ...]] = (SECONDS, *REQUESTS, *EXTREMES_AND_MEAN)
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "etcd": {},
        "etcd-loaded": {"clients": 32, "puts": 10_000},
    }

    tool: Literal["etcd"] = "etcd"
    memory_mib: Annotated[int, Field(ge=64, le=1_048_576)] = 1024
    """Memory that each member reserves and may use, in MiB. Data in memory may take half of it."""
    storage: StorageField = "memory"
    """Where members keep their data. `memory`: in memory, so that no disk is part of the result.
    `node`: on the node's disk. An object: a volume for each member."""
    puts: Annotated[int, Field(ge=_LEAST_PUTS, le=1_000_000)] = 3000
    """Number of puts that each load pod sends in a trial (`--total`)."""
    clients: Annotated[int, Field(ge=1, le=1000, validate_default=True)] = 1
    """Number of clients of each load pod, each with one put at a time and a connection of its own
    (`--clients`, `--conns`)."""
    value_bytes: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Size of the value of a put (`--val-size`)."""

    @field_validator("clients")
    @classmethod
    def _each_with_a_put(cls, value: int, info: ValidationInfo) -> int:
        puts = info.data.get("puts")
        if puts is not None and value > puts:
            raise refusal(f"has {value} for {puts} puts", "lower it, or raise puts")
        return value

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The median and the 99th percentile of the commit latency, and the puts per second."""
        latencies = printed_latencies("of the time of a put", 1e-9)
        return (*latencies, operations("puts per second and member", 1e-6))

    def member_argv(self, index: int, names: Sequence[str]) -> list[str]:
        """The command line of a member of a new cluster."""
        peers = {name.partition(".")[0]: f"http://{name}:{PEERS}" for name in names}
        own = list(peers)[index]
        return [
            *("etcd", f"--name={own}", f"--data-dir={DATA}/etcd"),
            f"--listen-client-urls=http://0.0.0.0:{CLIENTS}",
            f"--advertise-client-urls=http://{names[index]}:{CLIENTS}",
            f"--listen-peer-urls=http://0.0.0.0:{PEERS}",
            f"--initial-advertise-peer-urls={peers[own]}",
            "--initial-cluster=" + ",".join(f"{name}={url}" for name, url in peers.items()),
            "--initial-cluster-state=new",
        ]

    def measure_argv(self, addresses: Sequence[str]) -> list[str]:
        """The command line of a load pod; the times are printed with all digits (`--precise`)."""
        hosts = [f"[{each}]" if ":" in each else each for each in addresses]
        return [
            *("benchmark", "--precise", "--target-leader"),
            "--endpoints=" + ",".join(f"http://{host}:{CLIENTS}" for host in hosts),
            *(f"--conns={self.clients}", f"--clients={self.clients}", "put"),
            *(f"--total={self.puts}", f"--val-size={self.value_bytes}", "--sequential-keys"),
            f"--key-space-size={self.puts}",
        ]

    @property
    def expected_seconds(self) -> float:
        """How long a trial takes if a put takes 2 ms, or 10 ms with a disk."""
        each = _SECONDS_PER_PUT if self.storage == "memory" else _WITH_A_DISK
        return max(1.0, each * self.puts / self.clients)

    def warm_up(self) -> Self:
        """The fewest puts."""
        return self.model_copy(update={"puts": max(_LEAST_PUTS, self.clients)})


def parse(text: str, test: Test) -> Measurement:
    """Read what etcd's benchmark printed.

    Raises:
        ParseError: puts failed, or the summary is missing or incomplete.
    """
    if failed := _ERRORS.search(text):
        why = failed[2].strip()[:SHORT_REASON]
        raise ParseError(f"{failed[1]} puts failed: {why}")
    matches = {name: pattern.search(text) for name, pattern in _FIGURES.items()}
    percentiles = {name: float(value) for name, value in _PERCENTILE.findall(text)}
    missing = [name for name, match in matches.items() if match is None]
    if missing or not {"50", "99"} <= percentiles.keys():
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = f": {lines[-1][:SHORT_REASON]}" if lines else ""
        raise ParseError(f"etcd's benchmark printed no complete summary{last}")
    figures = {name: float(match[1]) for name, match in matches.items() if match is not None}
    answered = sum(int(count) for _, count in _BUCKET.findall(text))
    if answered != test.puts:
        raise ParseError(f"{answered} of {test.puts} puts were answered")
    rate = figures.pop("rate")
    times = [figures["min_seconds"], percentiles["50"], percentiles["99"], figures["max_seconds"]]
    if times != sorted(times) or not times[0] <= figures["mean_seconds"] <= times[-1]:
        raise ParseError("the times in the summary contradict each other")
    if not math.isclose(rate * figures["seconds"], answered, rel_tol=1e-3):
        raise ParseError("the rate in the summary is not that of the puts")
    return Measurement(
        values={
            "latency": percentiles["50"],
            "latency_p99": percentiles["99"],
            "operations": test.of_member(rate),
        },
        details={**figures, "requests": answered, "requests_per_second": rate},
    )
