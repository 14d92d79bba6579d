"""Writes to Valkey that replicas have acknowledged, measured by Valkey's own benchmark.

Project: [Valkey](https://valkey.io). The first member is the primary, the others are its replicas.
Valkey answers a write before a replica has it. `WAIT` answers when replicas have acknowledged all
writes of its connection. So its time contains a round trip from the load pod to the primary, and
one from the primary to the replica that answers last.

- **Reported time**: from sending a `WAIT` until its answer. The `WAIT` is for the write that the
  same connection sent just before; the next write is sent with it. `valkey-benchmark` times a
  sequence of commands until its first answer, so a write before its `WAIT` would end the time too
  early: half a second without a replica does not show in it then.
- **Values**: the median and the 99th percentile, which `valkey-benchmark` takes from its histogram
  of all times, and the acknowledged writes per second and member.
- **Samples**: none, because it does not print single times.
- **No time limit**: a `WAIT` that ends without the acknowledgements would look like a success. So
  each waits until it has them. A trial that ends while one waits has no value.
- **Data in memory only**: nothing is written to a disk, neither snapshots nor a log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    REQUESTS,
    SECONDS,
    Detail,
    Measurement,
    Metric,
    ParseError,
    Port,
    TimedTest,
    complaint,
    extremes_and_mean,
    refusal,
)
from rackrate.workloads.base import DATA, WorkloadTest, operations, printed_latencies

PORT = 6379
#: The histogram counts times up to 16 ms in steps of 8 µs, and longer ones with three digits.
_STEP, _DIGITS = 8e-6, 3
#: Two values have to lie beyond the 99th percentile.
_LEAST_WRITES = 200
#: What Valkey needs for a key besides its value, in bytes; and the share of a member's memory that
#: data may take, since a replica that connects needs a copy.
_KEY_BYTES, _SHARE = 150, 0.5
_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_COMPLETED = re.compile(rf"(\d{{1,12}}) requests completed in {_NUMBER} seconds", re.ASCII)
_RATE = re.compile(rf"throughput summary: {_NUMBER} requests per second", re.ASCII)
_LATENCIES = re.compile(
    r"latency summary \(msec\):\s+avg\s+min\s+p50\s+p95\s+p99\s+max\s+"
    + r"\s+".join([_NUMBER] * 6)
    + r"\s*(?:\n|$)",
    re.ASCII,
)
_CLIENTS = re.compile(r"^ {0,8}(\d{1,6}) parallel clients", re.MULTILINE | re.ASCII)
#: The line that shows the progress every quarter of a second.
_PROGRESS = re.compile(rf": rps={_NUMBER} \(overall", re.ASCII)
_COMPLAINT = re.compile(
    r"(Error from server: [^\r\n]+|Could not connect to server [^\r\n]+"
    r"|Error: [^\r\n]+|Invalid option [^\r\n]+)"
)


class Test(TimedTest, WorkloadTest):
    """A Valkey primary with replicas under writes; its values are the latency of acknowledged
    writes, and their rate."""

    ports: ClassVar[tuple[Port, ...]] = (Port(PORT),)
    least_members: ClassVar[int] = 2
    most_members: ClassVar[int] = 50
    #: Without `io-threads` one thread reads, executes and answers all commands.
    member_threads: ClassVar[int | None] = 1
    programs: ClassVar[Mapping[str, str]] = {
        "valkey-server": "valkey-server",
        "valkey-benchmark": "valkey-tools",
    }
    details: ClassVar[tuple[Detail, ...]] = (SECONDS, *REQUESTS, *EXTREMES_AND_MEAN)
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "valkey": {},
        "valkey-loaded": {"clients": 32},
    }

    tool: Literal["valkey"] = "valkey"
    acknowledgements: Annotated[int | None, Field(ge=1, le=49, validate_default=True)] = None
    """How many replicas have to acknowledge each write. `null`: all."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 5
    """How long each load pod writes in a trial, in seconds (`--duration`)."""
    clients: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of connections of each load pod, each with one write at a time (`-c`)."""
    value_bytes: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Size of a value in bytes (`-d`)."""
    keys: Annotated[int, Field(ge=1, le=100_000_000, validate_default=True)] = 100_000
    """Number of keys, of which each write draws one (`-r`)."""

    @field_validator("acknowledgements")
    @classmethod
    def _by_replicas_that_exist(cls, value: int | None, info: ValidationInfo) -> int | None:
        members = info.data.get("members")
        if value is not None and members is not None and value > members - 1:
            raise refusal(
                f"has {value}, and there are {members - 1} replicas", "lower it, or raise members"
            )
        return value

    @field_validator("keys")
    @classmethod
    def _that_fit_into_memory(cls, value: int, info: ValidationInfo) -> int:
        if {"memory_mib", "value_bytes"} <= info.data.keys():
            room = _room(info.data["memory_mib"])
            needed = value * (info.data["value_bytes"] + _KEY_BYTES)
            if needed > room:
                raise refusal(
                    f"need {needed >> 20} MiB, and data may take {room >> 20} MiB of memory_mib",
                    "lower keys or value_bytes, or raise memory_mib",
                )
        return value

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The median and the 99th percentile of the acknowledged writes' times, and their rate."""
        what = "of the time until replicas have acknowledged a write"
        latencies = printed_latencies(what, _STEP, _DIGITS)
        return (*latencies, operations("acknowledged writes per second and member", 0.005))

    @property
    def _waited_for(self) -> int:
        replicas = self.member_count - 1
        return replicas if self.acknowledgements is None else min(self.acknowledgements, replicas)

    def member_argv(self, index: int, names: Sequence[str]) -> list[str]:
        """The command line of the primary, which is the first member, or of a replica."""
        return [
            *("valkey-server", "--port", str(PORT), "--protected-mode", "no", "--dir", DATA),
            *("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"),
            *("--maxmemory", str(_room(self.memory_mib)), "--maxmemory-policy", "noeviction"),
            *(("--replicaof", names[0], str(PORT)) if index else ()),
        ]

    def measure_argv(self, addresses: Sequence[str]) -> list[str]:
        """The command line of a load pod, which writes to the primary."""
        return [
            *("valkey-benchmark", "-h", addresses[0], "-p", str(PORT)),
            *("-c", str(self.clients), "--duration", str(self.seconds)),
            *("-d", str(self.value_bytes), "-r", str(self.keys), "--precision", "3", "--"),
            *("WAIT", str(self._waited_for), "0", ";", "SET", "key:__rand_int__", "__data__"),
        ]


def _room(memory_mib: int) -> int:
    """How many bytes a member's data may take."""
    return int(memory_mib * 2**20 * _SHARE)


def parse(text: str, test: Test) -> Measurement:
    """Read what `valkey-benchmark` printed.

    It counts each command of a sequence as a request, so a request here is two of its requests.

    Raises:
        ParseError: writes failed or were not acknowledged, or the summary is missing or incomplete.
    """
    if words := complaint("valkey-benchmark", _COMPLAINT, text):
        raise ParseError(words)
    completed, rate, latencies, clients = (
        pattern.search(text) for pattern in (_COMPLETED, _RATE, _LATENCIES, _CLIENTS)
    )
    if completed is not None:
        progress = _PROGRESS.findall(text)
        if len(progress) > 1 and float(progress[-1]) == 0:
            raise ParseError(
                "valkey-benchmark: at the end no write was acknowledged by "
                f"{test._waited_for} replicas"
            )
    if completed is None or rate is None or latencies is None or clients is None:
        raise ParseError("valkey-benchmark's output is truncated: it has no complete summary")
    sent = f"WAIT {test._waited_for} 0 ; SET "
    if sent not in text or int(clients[1]) != test.clients:
        raise ParseError("valkey-benchmark's output is of another test")
    seconds = float(completed[2])
    test.require_time("valkey-benchmark", seconds)
    requests = int(completed[1]) // 2
    if requests < _LEAST_WRITES:
        raise ParseError(f"{requests} writes were acknowledged, and a p99 needs {_LEAST_WRITES}")
    per_second = float(rate[1]) / 2
    if not abs(per_second * seconds - requests) <= 0.02 * requests:
        raise ParseError("valkey-benchmark's rate does not agree with its number of requests")
    mean, shortest, median, _, p99, longest = (float(each) / 1000 for each in latencies.groups())
    if not shortest <= median <= p99 <= longest:
        raise ParseError("valkey-benchmark's percentiles are out of order")
    return Measurement(
        values={
            "latency": median,
            "latency_p99": p99,
            "operations": test.of_member(per_second),
        },
        details={
            "seconds": seconds,
            "requests": requests,
            "requests_per_second": per_second,
            **extremes_and_mean(shortest, mean, longest),
        },
    )
