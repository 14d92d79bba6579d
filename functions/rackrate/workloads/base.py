"""The base class of the workloads.

A workload is a service of several members under load. Each member is a pod on its own node of an
arm. Load pods on other nodes send the requests. A workload is one of a plan's tests, so its metrics
get verdicts as those of any test.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

from rackrate.tools.base import MEMBERS_CPU, Detail, Metric, Port, Server, TestBase, refusal

#: Where a member keeps its data, and where it finds its files. Both are in its container.
DATA, FILES = "/data", "/files"
#: Kubernetes replaces this in a command line by the IP address of the member's pod.
OWN_ADDRESS = "$(POD_IP)"
#: Kubernetes replaces this in the command line of a load pod by a number from 0, which differs
#: between load pods and trials.
OWN_NUMBER = "$(POD_NUMBER)"
#: An address for documentation (RFC 5737).
_NOWHERE = ("192.0.2.1",)
#: The most members and load pods of one arm.
MAX_MEMBERS, MAX_LOADERS = 1000, 450
#: The most volumes of a run, and their size in GiB together; the namespace's quota has them too.
MAX_VOLUMES, MAX_VOLUMES_GIB = 2000, 20_480

ImageByDigest = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}$",
        max_length=300,
        examples=[f"docker.io/library/cassandra@sha256:{'0' * 64}"],
    ),
]


class Volume(BaseModel):
    """A volume for each member, which is made with its pod and deleted with it."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )

    storage_class: Annotated[
        str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253, examples=["gp3"])
    ]
    """The cluster's storage class."""
    gib: Annotated[int, Field(ge=1, le=16_384, examples=[20])]
    """Its size in GiB."""


StorageField = Annotated[
    Annotated[Literal["memory", "node"], Tag("name")] | Annotated[Volume, Tag("volume")],
    Discriminator(lambda value: "volume" if isinstance(value, dict | Volume) else "name"),
]


def printed_latencies(what: str, step: float, digits: int | None = None) -> tuple[Metric, ...]:
    """The median and the 99th percentile as a load program prints them, without raw values."""
    return (
        Metric("latency", "s", "lower", f"median {what}", step, digits),
        Metric("latency_p99", "s", "lower", f"99th percentile {what}", step, digits, share=0.99),
    )


def operations(statistic: str, step: float) -> Metric:
    """The operations per second and member."""
    return Metric("operations", "operations/s", "higher", statistic, step)


class WorkloadTest(TestBase):
    """A workload with its parameters. Subclasses add their own."""

    #: The ports that members listen on, for each other and for the load.
    ports: ClassVar[tuple[Port, ...]]
    #: A path on the first port that answers with status 200 once the member is ready; None if the
    #: member is ready as soon as its first port is open.
    ready_path: ClassVar[str | None] = None
    #: How long the members may take until all are ready, in seconds, after their images are there.
    ready_seconds: ClassVar[int] = 120
    no_ipv6: ClassVar[tuple[str, str] | None] = (
        "has not been tried with IPv6 addresses",
        "leave the test out",
    )
    uses_load_nodes: ClassVar[bool] = True
    through_service: ClassVar[bool] = False  # load pods connect to each member
    to_endpoint: ClassVar[bool] = False
    # Members may name each other to the load, as etcd names its leader.
    uses_cluster_dns: ClassVar[bool] = True
    #: The fewest and the most members that the workload works with.
    least_members: ClassVar[int] = 1
    most_members: ClassVar[int] = MAX_MEMBERS
    #: How many CPUs a member can use because of its threads; None for all of its node.
    member_threads: ClassVar[int | None] = None
    #: Environment variables of members and of load pods.
    environment: ClassVar[Mapping[str, str]] = {}

    members: Annotated[int | None, Field(ge=1, le=MAX_MEMBERS)] = 3
    """Number of members in each arm, each on a node of its own. `null`: one on every node of the
    arm with the fewest nodes, or as many as the workload can have."""
    loaders: Annotated[int | None, Field(ge=1, le=MAX_LOADERS)] = 1
    """Number of load pods of one arm, each on a node of its own. These are load nodes, or without
    load nodes those of the arm that have no member. `null`: one on every load node, or one if there
    are none."""
    settle_seconds: Annotated[int, Field(ge=0, le=3600)] = 0
    """How long the workload rests before it is measured for the first time."""
    memory_mib: Annotated[int, Field(ge=64, le=1_048_576)] = 512
    """Memory that each member reserves and may use, in MiB. Data in memory may take half of it."""
    load_memory_mib: Annotated[int, Field(ge=64, le=1_048_576)] = 512
    """Memory that each load pod reserves and may use, in MiB."""
    cpu: Annotated[float, Field(ge=0.01, le=512)] = 0.1
    """CPUs that each member and each load pod reserves. There is no limit."""
    storage: StorageField = "node"
    """Where members keep their data. `memory`: in memory. `node`: on the node's disk. An object: a
    volume for each member; on EKS that takes a driver, such as the add-on `aws-ebs-csi-driver`."""
    image: ImageByDigest | None = None
    """Image of the members, by digest; `AllowedImages` of the stack has it. `null`: the tools'
    image."""
    load_image: ImageByDigest | None = None
    """Image of the load pods, by digest; `AllowedImages` of the stack has it. `null`: the tools'
    image."""

    @field_validator("members")
    @classmethod
    def _as_many_as_it_can_have(cls, value: int | None) -> int | None:
        if value is not None and not cls.least_members <= value <= cls.most_members:
            raise refusal(
                f"must be from {cls.least_members} to {cls.most_members}, not {value}",
                "write such a number",
            )
        return value

    # -- the members

    @abstractmethod
    def member_argv(self, index: int, names: Sequence[str]) -> list[str]:
        """The command line of a member; it runs without a shell.

        It may contain `OWN_ADDRESS`. The member keeps its data in `DATA`, and may also write to
        `/tmp`. Everything else is read-only.

        Args:
            index: which member, from 0.
            names: the DNS names of all members. They resolve before any member is ready.
        """

    def files(self, index: int, names: Sequence[str]) -> Mapping[str, str]:
        """The files that a member finds in `FILES`, by name; the same arguments."""
        return {}

    # -- the load

    @property
    def load_files(self) -> Mapping[str, str]:
        """The files that each load pod finds in `FILES`, by name; together at most 200 KB."""
        return {}

    @abstractmethod
    def measure_argv(self, addresses: Sequence[str]) -> list[str]:
        """The command line of a load pod that measures; it runs without a shell.

        It may contain `OWN_NUMBER`. What it prints is what `parse` reads. A trial is one load
        pod's. A rate has to be that of one member: the load pod's rate times `loaders`, divided by
        `members`.

        Args:
            addresses: the IP addresses of the members, in their order.
        """

    def load_argv(self, addresses: Sequence[str]) -> list[str] | None:
        """The command line that loads data before the first measurement; None without data.

        One load pod runs it once. It has succeeded if its exit code is 0.
        """
        return None

    @property
    def load_seconds(self) -> float:
        """How long loading data is expected to take."""
        return 0.0

    def clear_argv(self, addresses: Sequence[str]) -> list[str] | None:
        """The command line that removes what a measurement left; None if it leaves nothing.

        The load pod runs it after each measurement. Its output is not parsed.
        """
        return None

    @property
    def clear_seconds(self) -> float:
        """How long that is expected to take."""
        return 0.0

    # -- what other code needs of any test

    @classmethod
    def all_details(cls) -> tuple[Detail, ...]:
        """What the load program reports, and the CPU time of the members."""
        return (*cls.details, *MEMBERS_CPU)

    @property
    def has_data(self) -> bool:
        """Whether data are loaded before it is measured."""
        return self.load_argv(_NOWHERE) is not None

    @property
    def clears(self) -> bool:
        """Whether something is removed after each measurement."""
        return self.clear_argv(_NOWHERE) is not None

    @property
    def member_count(self) -> int:
        """The number of members; a checked plan always has one.

        Raises:
            ValueError: the plan was not checked, so `members` is still null.
        """
        if self.members is None:
            raise ValueError(f"the number of members of {self.name} is not known yet")
        return self.members

    @property
    def loader_count(self) -> int:
        """The number of load pods of an arm; a checked plan always has one.

        Raises:
            ValueError: the plan was not checked, so `loaders` is still null.
        """
        if self.loaders is None:
            raise ValueError(f"the number of load pods of {self.name} is not known yet")
        return self.loaders

    def of_member(self, rate: float) -> float:
        """The rate of one member, from that of one load pod."""
        return rate * self.loader_count / self.member_count

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The command line of a load pod for a workload of one member."""
        return self.measure_argv([server])

    @property
    def server(self) -> Server | None:
        """None: members are pods of their own."""
        return None
