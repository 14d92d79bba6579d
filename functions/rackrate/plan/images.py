"""The programs of tools that known images have. Pure."""

from __future__ import annotations

from rackrate.tools.base import TestBase
from rackrate.workloads.base import WorkloadTest

#: nicolaka/netshoot is the template's default. These are its programs, and its registries:
#: https://github.com/nicolaka/netshoot/blob/v0.13/Dockerfile,
#: https://github.com/nicolaka/netshoot/blob/v0.13/.github/workflows/release-buildx.yml
_NETSHOOT = frozenset({"curl", "ethtool", "fortio", "iperf", "iperf3", "ping", "sh"})

#: By repository; an image of another may have any program.
PROGRAMS = {"docker.io/nicolaka/netshoot": _NETSHOOT, "ghcr.io/nicolaka/netshoot": _NETSHOOT}


def programs_lacking(image: str, test: TestBase) -> list[str]:
    """The programs of a test that an image is known to lack.

    A workload with an image of its own for members or load pods brings what it needs.

    Args:
        image: the image, with or without a tag and a digest; empty if it is not known.
        test: the test.
    """
    name = image.partition("@")[0]
    repository, _, tag = name.rpartition(":")
    if isinstance(test, WorkloadTest) and (test.image or test.load_image):
        return []
    programs = PROGRAMS.get(repository if repository and "/" not in tag else name)
    return [] if programs is None else sorted(test.programs.keys() - programs)
