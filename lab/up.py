"""Bring a lab up: make what is missing, start the keeper, deploy a stack."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import daemon, prerequisites, stack
from lab.cache import FUNCTIONS, cache_directory
from lab.errors import LabError
from lab.fabric.luck import fresh_seed
from lab.setup import debian, golang, image, kubernetes, large, tools

# With this scale both arms together use 2 Gb/s at once; two cores carry 15 Gb/s.
DEFAULT_NETWORK_SCALE = 0.1
REGION_SECONDS = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Artifacts:
    """The files that a lab runs, all of them in the cache."""

    programs: Path
    kubernetes: Path
    images: Path


def network_scale() -> float:
    """The scale of all bandwidth limits: `RACKRATE_LAB_SCALE`, by default 0.1."""
    text = os.environ.get("RACKRATE_LAB_SCALE", str(DEFAULT_NETWORK_SCALE))
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0.001 <= scale <= 1:
        raise LabError(
            f"RACKRATE_LAB_SCALE is {text!r}: give a number from 0.001 to 1, such as 0.1."
        )
    return scale


def prepare(say: Say, *, with_large: bool = False) -> Artifacts:
    """Download and build what is not in the cache, `with_large` also those of large workloads."""
    # The builds use the processors while other things are downloaded.
    with golang.scratch(), ThreadPoolExecutor(max_workers=2) as pool:
        say(f"Kubernetes {kubernetes.version()} (built once, 5 minutes on two cores)")
        building = [pool.submit(build, say) for build in (golang.tools, kubernetes.binaries)]
        say("Debian's packages")
        programs = debian.unpacked_services()
        say(f"the pods' tools, of {tools.release()}")
        root = tools.unpacked()
        programs_of_large = None
        if with_large:
            say("the programs of large workloads (built once, 15 minutes on two cores)")
            programs_of_large = large.programs()
        modules, binaries = [each.result() for each in building]
    say("container images")
    # So that labs whose caches link to this one share it.
    (cache_directory() / FUNCTIONS).mkdir(exist_ok=True)
    return Artifacts(
        programs, binaries, image.archive(root, modules, binaries / "pause", programs_of_large)
    )


def bring_up(
    say: Say,
    *,
    tied: bool,
    deploy: bool = True,
    seed: int | None = None,
    even: bool = False,
    stretch: float = 1.0,
    kwok: Path | None = None,
    with_large: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Start a lab and return its status. On any error nothing is left.

    With `deploy` the stack is built and deployed with these `parameters`. `seed` decides the
    nodes' places; without one a fresh seed does. In an `even` lab all nodes have the same place.
    `stretch` is that of `lab.fabric.luck.Luck`.
    With `kwok`, its program, the nodes are simulated (`lab/simulated/`). Only `with_large` pods can
    run the programs of large workloads.
    """
    prerequisites.check()
    prerequisites.allow_watches()
    scale = network_scale()
    lock = daemon.acquire_lock()
    try:
        # `sam build` does not need the lab, so it uses the processor while the lab starts.
        with ThreadPoolExecutor(max_workers=1) as pool:
            say("checking what is missing")
            artifacts = prepare(say, with_large=with_large)
            building = pool.submit(stack.build) if deploy else None
            say("starting the lab")
            started, lock = lock, -1
            keeper = daemon.start(
                programs=artifacts.programs,
                kubernetes=artifacts.kubernetes,
                images=artifacts.images,
                network_scale=scale,
                lock=started,
                tied=tied,
                seed=None if even else fresh_seed() if seed is None else seed,
                stretch=stretch,
                kwok=kwok,
            )
            status = _wait_for_region(keeper)
            if building is not None:
                say("building the stack (sam build)")
                building.result()
        if deploy:
            say("deploying the stack")
            stack.deploy(status, say, parameters=parameters)
    except BaseException:
        if lock == -1:
            say("taking the lab down")
            daemon.stop()
        raise
    finally:
        if lock != -1:
            with contextlib.suppress(OSError):
                os.close(lock)
    return status


def _wait_for_region(keeper: int) -> dict[str, Any]:
    path = daemon.state_directory() / "status.json"
    deadline = time.monotonic() + REGION_SECONDS
    while True:
        status = stack.read_status(path)
        if status is not None:
            return status
        ended, _ = os.waitpid(keeper, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            log = daemon.last_log()
            tail = " | ".join(log[-3:]) or "its log is empty"
            raise LabError(f"The lab did not start ({tail}): its log is in {daemon.last_logs()}.")
        time.sleep(0.05)
