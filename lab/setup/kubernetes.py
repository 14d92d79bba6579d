"""Kubernetes and CoreDNS, at the versions that lab/kubernetes/go.mod locks."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path

from lab.cache import artifact, key_of
from lab.errors import LabError
from lab.setup import golang

MODULE = Path(__file__).resolve().parents[1] / "kubernetes"


def version() -> str:
    """The locked version of Kubernetes, such as `1.36.3`."""
    match = re.search(
        r"^(?:require)?\s*k8s\.io/kubernetes v(\S+)", (MODULE / "go.mod").read_text("utf-8"), re.M
    )
    if match is None:
        raise LabError("lab/kubernetes/go.mod names no k8s.io/kubernetes: restore the file.")
    return match[1]


def binaries(say: Callable[[str], None]) -> Path:
    """The directory with Kubernetes' programs (kubelet, the rest), CoreDNS and `pause`."""
    sources = [
        path.read_bytes()
        for path in sorted(MODULE.rglob("*"))
        if path.is_file() and path.suffix in {".mod", ".sum", ".go"}
    ]
    key = key_of(platform.machine(), *sources)
    return artifact("kubernetes", key, lambda directory: _build(directory, say))


def _build(directory: Path, say: Callable[[str], None]) -> None:
    major, minor, _ = version().split(".", 2)
    stamp = "k8s.io/component-base/version"
    golang.install(
        MODULE,
        directory,
        *("tool", "./coredns", "./pause"),
        name=f"Kubernetes {version()}",
        linker_flags=(
            f"-X {stamp}.gitVersion=v{version()} -X {stamp}.gitMajor={major} "
            f"-X {stamp}.gitMinor={minor} -X {stamp}.gitTreeState=clean"
        ),
        # Most of its code, and little of what it runs most often.
        not_inlined=[f"k8s.io/{each}/..." for each in ("kubernetes", "client-go", "kubectl")],
        say=say,
    )
