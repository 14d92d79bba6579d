"""Measure how long each function takes to start: to import its handler, as `sam build` made it.

A function's process is new after each deployment, in each hour without a run, and for each of many
invocations at once. Lambda bills the start as it bills the rest. A process here has what a
function's has: its package, its layers, no byte code beside what they hold, and nothing else.

Run as `python -m benchmarks.start`, or as `make bench-start`. Exit codes: 0 each function starts
within a second of processor time, 1 not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from samcli.yamlhelper import yaml_parse

from benchmarks.points import Point, judge
from benchmarks.scale_figures import WHOLE_CPU_BYTES
from lab import stack
from rackrate.plan.prices import FALLBACK, LAMBDA_GIGABYTE_SECOND

MOST_SECONDS = 1.0
TRIES = 5
MACHINE = stack.REPOSITORY / "statemachine" / "benchmark.asl.yaml"
#: Prints the processor seconds, of this process and its threads, that the import takes.
PROGRAM = """
import importlib, sys, time
before = time.process_time()
importlib.import_module(sys.argv[1])
print(time.process_time() - before)
"""


class Function(NamedTuple):
    """A function as it is deployed. `paths` are where its modules are looked for, in order."""

    module: str
    memory_bytes: int
    paths: tuple[Path, ...]


def resources(template: Path, kind: str) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """The resources of a type in a built template and in those nested in it.

    Each comes with its name, its template's directory and its properties, to which the template's
    global ones of functions are added.
    """
    content: dict[str, Any] = yaml_parse(template.read_text("utf-8"))
    shared = content.get("Globals", {}).get("Function", {})
    for name, resource in content["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::CloudFormation::Stack":
            yield from resources(template.parent / properties["TemplateURL"], kind)
        elif resource["Type"] == kind:
            layers = [*shared.get("Layers", []), *properties.get("Layers", [])]
            yield name, template.parent, {**shared, **properties, "Layers": layers}


def functions(template: Path) -> Iterator[Function]:
    """The functions of a built stack with layers. The others import what Lambda brings itself."""
    layers = {
        name: (directory / properties["ContentUri"] / "python").resolve()
        for name, directory, properties in resources(template, "AWS::Serverless::LayerVersion")
    }
    for _, directory, properties in resources(template, "AWS::Serverless::Function"):
        package = (directory / properties["CodeUri"]).resolve()
        module = properties["Handler"].rpartition(".")[0]
        paths = tuple(layers[layer["Ref"]] for layer in properties["Layers"])
        if paths:
            yield Function(module, properties["MemorySize"] * 2**20, (package, *paths))


def functions_of_a_run() -> set[str]:
    """The names of the functions that the state machine of runs invokes."""
    named = re.findall(r"\$\{(\w+)FunctionArn\}", MACHINE.read_text("utf-8"))
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in named}


def seconds_to_start(function: Function) -> float:
    """The least processor seconds of several starts: other work on the machine only adds."""
    tried = [
        subprocess.run(
            # Without the packages of this environment.
            [sys.executable, "-S", "-s", "-B", "-c", PROGRAM, function.module],
            env={
                "PYTHONPATH": os.pathsep.join(map(str, function.paths)),
                "AWS_DEFAULT_REGION": "us-east-1",
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(TRIES)
    ]
    return min(map(float, tried))


def measure() -> list[Point]:
    """Print each function's start, and what those of a run cost; the points of the goal."""
    stack.build()
    built = {
        f.module: f for f in functions(stack.BUILD_DIRECTORIES[stack.OWN_CLUSTER] / "template.yaml")
    }
    print(f"{'function':<18} {'MB':>5} {'processor':>10} {'with its share of a CPU':>24}")
    seconds, gigabyte_seconds = {}, {}
    for module, function in sorted(built.items()):
        name, memory = module.rpartition(".")[2], function.memory_bytes
        seconds[name] = seconds_to_start(function)
        on_lambda = seconds[name] / min(1.0, memory / WHOLE_CPU_BYTES)
        gigabyte_seconds[name] = on_lambda * memory / 2**30
        print(f"{name:<18} {memory / 2**20:>5.0f} {seconds[name]:>8.2f} s {on_lambda:>22.2f} s")
    names = functions_of_a_run()
    billed = sum(gigabyte_seconds[name] for name in names)
    print(
        f"One start of each of the {len(names)} functions of a run:"
        f" {sum(seconds[name] for name in names):.1f} s of processor time,"
        f" {billed:.1f} GB-seconds, ${billed * FALLBACK[LAMBDA_GIGABYTE_SECOND].usd:.5f}"
    )
    return [
        Point(spent <= MOST_SECONDS, f"{name} starts within {spent:.2f} s of processor time")
        for name, spent in seconds.items()
    ]


if __name__ == "__main__":
    sys.exit(judge(measure))
