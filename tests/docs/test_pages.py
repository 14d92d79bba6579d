"""Errors, parameters and outputs in pages exist, and generated references are current."""

from __future__ import annotations

import inspect
import io
import json
import re
import tomllib
from dataclasses import replace

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES
from rackrate_cli.printing.verdict import print_results
from rackrate_cli.reading.documents import read_results
from rich.console import Console

from lint import definition as asl
from rackrate import errors
from rackrate.plan.ceilings import (
    DEFAULT_FLOW_BITS_PER_SECOND,
    FLOW_BITS_PER_SECOND,
    instance_network,
)
from rackrate.plan.check import check_plan
from rackrate.plan.images import programs_lacking
from scripts import references
from scripts.markdown import with_part
from scripts.parameters import EXISTING_CLUSTER, OWN_CLUSTER, load
from tests.docs.blocks import PAGES, ROOT, blocks_of
from tests.unit.samples import ARMS, ENDPOINTS, HOST_SETTINGS

DOCS = ROOT / "docs"
TEMPLATE = load(OWN_CLUSTER)
NAMES = set(TEMPLATE["Parameters"]) | set(load(EXISTING_CLUSTER)["Parameters"])
TROUBLE = (DOCS / "troubleshooting.md").read_text("utf-8")
HEADINGS = {
    name
    for heading in re.findall(r"^### (.+)$", TROUBLE, re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", heading)
}


# -- troubleshooting


def test_every_error_of_a_run_has_its_section():
    bases = {errors.RackrateError, errors.InvalidInput}
    named = {
        name
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.RackrateError) and each not in bases
    }
    assert named == errors.NAMES
    assert named <= HEADINGS


def test_every_error_the_state_machine_knows_is_documented():
    definition = asl.read(ROOT / "statemachine" / "benchmark.asl.yaml")
    named = {
        error
        for _, state in asl.states(definition)
        for handler in (*state.get("Retry", []), *state.get("Catch", []))
        for error in handler["ErrorEquals"]
    }
    assert named
    assert {name for name in named - {"States.ALL"} if f"`{name}`" not in TROUBLE} == set()


# -- a deployment asks nothing


def test_no_command_of_a_page_or_a_message_asks_for_every_parameter():
    commands = [block.text for page in PAGES for block in blocks_of(page)]
    messages = [path.read_text("utf-8") for path in (ROOT / "cli").rglob("*.py")]
    assert any("sam deploy" in text for text in commands)
    assert any("sam deploy" in text for text in messages)
    assert [text for text in commands + messages if "--guided" in text] == []


def test_the_settings_of_sam_ask_nothing_and_fix_no_parameter():
    settings, of_existing = (
        tomllib.loads((ROOT / "samconfig.toml").read_text("utf-8"))[environment]
        for environment in ("default", "existing-cluster")
    )
    assert settings["deploy"]["parameters"]["confirm_changeset"] is False
    assert [each for each in settings.values() if "parameter_overrides" in each["parameters"]] == []
    paths = {"template_file", "build_dir"}
    for command, of_command in of_existing.items():
        other = {k: v for k, v in of_command["parameters"].items() if k not in paths}
        assert other == settings[command]["parameters"], command


def test_the_shortest_path_to_a_verdict_is_as_long_as_the_page_says():
    page = ROOT / "docs" / "start-aws.md"
    path = re.findall(r"^\| `([^`]+)` \|", page.read_text("utf-8").split("## ")[0], re.MULTILINE)
    numbers = {4: "four", 5: "five", 6: "six", 7: "seven"}
    assert f"{numbers[len(path)]} commands, no question" in page.read_text("utf-8")
    shown = [line for block in blocks_of(page) for line in block.text.splitlines()]
    assert [line for line in shown if line in path][: len(path)] == path, "the blocks go this way"


# -- instance types


def test_the_limits_of_instance_types_are_those_that_ec2_describes():
    page = (DOCS / "start-aws.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+\.\w+`.*) \|$", page, re.MULTILINE)
    assert rows
    for row in rows:
        names, vcpus, outside, inside, baseline, peak, burst = row.split(" | ")
        for name in re.findall(r"`([^`]+)`", names):
            described = INSTANCE_TYPES[name]
            network = instance_network(described)
            assert described["VCpuInfo"]["DefaultVCpus"] == int(vcpus), name
            assert network.baseline_bits_per_second == float(baseline) * 1e9, name
            assert network.peak_bits_per_second == float(peak) * 1e9, name
            assert network.bursts == (burst == "yes"), name
            assert described["NetworkInfo"]["EnaSrdSupported"] == ("ENA Express" in inside), name
            assert float(outside.split(";")[0]) * 1e9 == DEFAULT_FLOW_BITS_PER_SECOND
            assert float(inside.split(";")[0]) * 1e9 == FLOW_BITS_PER_SECOND["cluster"]


# -- tables


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_row_of_a_table_is_too_long_to_read(path):
    fenced = {
        number
        for block in blocks_of(path)
        for number in range(block.line, block.line + block.text.count("\n") + 2)
    }
    rows = {
        f"{number}: {line[:60]}": len(line)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.lstrip().startswith("|") and number not in fenced
    }
    assert {row: length for row, length in rows.items() if length > LONGEST_ROW} == {}


#: In characters, links included, as a person reads the file in a terminal or a diff.
LONGEST_ROW = 200


# -- plans for experiments


@pytest.mark.parametrize("folder", ["plans", "campaigns"])
def test_a_plan_whose_tools_the_default_image_lacks_names_the_parameter(folder):
    listed = (DOCS / folder / "README.md").read_text("utf-8")
    image = TEMPLATE["Parameters"]["ToolImage"]["Default"]
    rows = dict(re.findall(r"^\| `(\S+\.json)` \|(.*)$", listed, re.MULTILINE))
    for path in sorted((DOCS / folder).glob("*.json")):
        document = json.loads(path.read_text("utf-8"))
        raw = document.get("plan", document)
        nodes = {arm.name: 12 for arm in ARMS}
        settings = replace(HOST_SETTINGS, endpoints=ENDPOINTS)
        plan = check_plan(raw, settings, nodes=nodes, run_id="r")
        lacking = [test for test in plan.tests if programs_lacking(image, test)]
        assert ("ToolImage=build" in rows[path.name]) == bool(lacking), path.name


# -- what is made of templates and models


def test_generated_pages_are_what_templates_and_models_say_now():
    documents = references.documents()
    assert documents
    stale = [path.name for path, text in documents.items() if path.read_text("utf-8") != text]
    assert stale == [], "make docs"


def test_a_page_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="no <!-- rights: begin -->"):
        with_part("# Page\n<!-- rights: end -->\n", "rights", "x")


@pytest.mark.parametrize("name", ["README.md", "docs/reading-a-verdict.md"])
def test_the_end_of_a_run_that_a_page_shows_is_what_the_command_prints(name):
    console = Console(file=io.StringIO(), width=80)
    demo = (ROOT / "tests" / "docs" / "data" / "demo.results.json").read_bytes()
    print_results(console, read_results(demo, "demo"))
    printed = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    assert len(printed.splitlines()) <= 12
    assert f"```text\n{printed}\n```" in (ROOT / name).read_text("utf-8")


# -- parameters and outputs of the stack


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_parameters_and_outputs_that_a_page_names_exist(path):
    text = path.read_text("utf-8")
    # Variables of make are in capitals.
    named = set(re.findall(r"`([A-Z]+[a-z][A-Za-z]*)=[^`\s]*`", text))
    for line in re.findall(r"--parameter-overrides (.*)$", text, re.MULTILINE):
        if "Repository=" not in line:  # of docs/ci/roles.yaml
            named |= set(re.findall(r"([A-Z]\w+)=", line))
    assert named - NAMES - OTHERS == set()
    outputs = set(re.findall(r"OutputKey==['`](\w+)['`]", text))
    assert outputs - set(TEMPLATE["Outputs"]) == set()


#: Parameters of docs/ci/roles.yaml.
OTHERS = {"ProviderArn", "Repository", "ArtifactBucketName"}
