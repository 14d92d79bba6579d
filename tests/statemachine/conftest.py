"""What the template says of the state machine."""

from __future__ import annotations

import pytest

from tests.templates.cloudformation import ROOT, load


@pytest.fixture(scope="session")
def benchmark_template():
    return load(ROOT / "templates" / "benchmark.yaml")


@pytest.fixture(scope="session")
def function_timeouts(benchmark_template):
    default = benchmark_template["Globals"]["Function"]["Timeout"]
    return {
        name: resource["Properties"].get("Timeout", default)
        for name, resource in benchmark_template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }
