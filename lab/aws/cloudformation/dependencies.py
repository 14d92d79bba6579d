"""The dependencies between resources, and a walk through them in that order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from lab.aws.cloudformation.intrinsics import referenced_names
from lab.aws.cloudformation.stacks import Stack
from lab.aws.cloudformation.template import TemplateError

LOG = logging.getLogger(__name__)

_CONCURRENCY = 12


def active_resources(stack: Stack) -> dict[str, dict[str, Any]]:
    """Resources of the template whose condition holds; none of a stack under review."""
    return {
        name: resource
        for name, resource in stack.template.get("Resources", {}).items()
        if "Condition" not in resource or stack.conditions[resource["Condition"]]
    }


def depends_on(resource: Mapping[str, Any]) -> list[str]:
    """The names in a resource's DependsOn."""
    names = resource.get("DependsOn", [])
    return [names] if isinstance(names, str) else list(names)


def dependencies(stack: Stack) -> dict[str, set[str]]:
    """The active resources that each active resource needs, by name.

    A resource also waits for what its Metadata refer to, which is the way to wait for a resource
    that has a condition (https://cloudonaut.io/optional-dependson-with-cloudformation-metadata-to-the-rescue).
    """
    active = active_resources(stack)
    return {
        name: (
            set(depends_on(resource))
            | referenced_names(resource.get("Properties") or {}, stack.conditions)
            | referenced_names(resource.get("Metadata") or {}, stack.conditions)
        )
        & set(active)
        for name, resource in active.items()
    }


def dependents(stack: Stack) -> dict[str, set[str]]:
    """For each resource that exists, the resources that need it, by name."""
    needs = dependencies(stack)
    return inverted({name: needs.get(name, set()) for name in stack.resources})


def inverted(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """By each name, the names that need it."""
    return {name: {other for other, its in needs.items() if name in its} for name in needs}


def refuse_circles(needs: Mapping[str, set[str]]) -> None:
    """Raise TemplateError when resources depend on one another in a circle."""
    waiting = dict(needs)
    while waiting:
        ready = [name for name, need in waiting.items() if not need & set(waiting)]
        if not ready:
            raise TemplateError(
                f"Circular dependency between resources: [{', '.join(sorted(waiting))}]"
            )
        for name in ready:
            del waiting[name]


def walk(
    needs: Mapping[str, set[str]],
    action: Callable[[str], None],
    *,
    stop: threading.Event | None,
    keep_going: bool = False,
) -> dict[str, Exception]:
    """Run `action` on every node after the nodes it needs. Returns the failures.

    After a failure it starts no new nodes. With `keep_going` it skips only the nodes that need a
    failed one.
    """
    waiting = {name: set(need) for name, need in needs.items()}
    failed: dict[str, Exception] = {}
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(_CONCURRENCY, thread_name_prefix="stack") as pool:
        while True:
            halted = (failed and not keep_going) or (stop is not None and stop.is_set())
            if not halted:
                for name in [n for n, need in waiting.items() if not need]:
                    del waiting[name]
                    running[pool.submit(action, name)] = name
            if not running:
                break
            done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                error = future.exception()
                if error is None:
                    for need in waiting.values():
                        need.discard(name)
                elif isinstance(error, Exception):
                    LOG.info("%s: %s", name, error)
                    failed[name] = error
                else:
                    raise error
    return failed
