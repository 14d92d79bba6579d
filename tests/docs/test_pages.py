"""What pages say of the code is so: errors, messages, rights, figures, ports."""

from __future__ import annotations

import ast
import inspect
import io
import re
from pathlib import Path

import pytest
import yaml
from rackrate_cli.results import Results
from rackrate_cli.verdict import print_results
from rich.console import Console

from rackrate import errors, links, manifests, tools
from rackrate.tools.base import TestBase
from scripts import access_reference
from scripts.parameters import load
from tests.docs.blocks import PAGES, ROOT, blocks_of

DOCS = ROOT / "docs"
TEMPLATE = load()
TROUBLE = (DOCS / "troubleshooting.md").read_text("utf-8")
HEADINGS = {
    name
    for heading in re.findall(r"^### (.+)$", TROUBLE, re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", heading)
}


# -- troubleshooting


def test_every_error_of_a_run_has_its_section():
    named = {
        name
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.RackrateError) and each is not errors.RackrateError
    }
    assert named
    assert named <= HEADINGS


def test_every_error_the_state_machine_knows_is_told_of():
    definition = yaml.safe_load((ROOT / "statemachine" / "benchmark.asl.yaml").read_text("utf-8"))
    named = {name for each in found(definition, "ErrorEquals") for name in each} - {"States.ALL"}
    assert named
    assert {name for name in named if f"`{name}`" not in TROUBLE} == set()
    assert found(definition, "TimeoutSeconds") and "States.Timeout" in HEADINGS


def test_every_end_of_a_run_that_is_no_success_is_told_of():
    results = (DOCS / "results.md").read_text("utf-8")
    assert "`degraded`" in results
    assert {"degraded", "aborted"} <= HEADINGS


def test_every_section_of_an_error_says_symptom_cause_and_remedy():
    sections = re.split(r"^###? ", TROUBLE, flags=re.MULTILINE)
    ours = [each for each in sections if re.match(r"`[A-Z]", each)]
    assert len(ours) >= 9
    for section in ours:
        parts = re.findall(r"^- \*\*(You read|Cause|Remedy)\*\*: \S", section, re.MULTILINE)
        assert parts == ["You read", "Cause", "Remedy"], section.splitlines()[0]


def found(value, key):
    """The values of a key, however deep."""
    if isinstance(value, dict):
        own = [value[key]] if key in value else []
        return own + [each for inner in value.values() for each in found(inner, key)]
    if isinstance(value, list):
        return [each for inner in value for each in found(inner, key)]
    return []


def texts(tree):
    """The texts of a program, with `…` for what is put in when it runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


SOURCES = {
    path: ast.parse(path.read_text("utf-8"))
    for folder in ("functions/rackrate", "cli", "lab")
    for path in (ROOT / folder).rglob("*.py")
}
SAID = " ".join(text for tree in SOURCES.values() for text in texts(tree)).replace("\n", " ")


def quoted():
    """What the page says that one reads: the code with words in it, of the symptoms."""
    for line in TROUBLE.splitlines():
        if line.startswith(("- **You read**", "| ")):
            yield from (text for text in re.findall(r"`([^`]+)`", line) if text.count(" ") > 2)


@pytest.mark.parametrize("message", sorted(set(quoted())))
def test_a_message_that_is_quoted_is_one_that_is_printed(message):
    for piece in filter(None, (piece.strip(" :,") for piece in message.split("…"))):
        assert piece.removeprefix("States.Timeout: ") in SAID, piece


def test_messages_are_quoted():
    assert len(set(quoted())) > 40


def problems_of_preflight():
    """What preflight may find wrong: the second argument of each of its faults."""
    tree = SOURCES[ROOT / "functions" / "rackrate" / "preflight.py"]
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Fault"), args=[_, problem, *_]):
                yield from ([] if isinstance(problem, ast.Name) else texts_of(problem))
            case ast.Assign(targets=[ast.Name(id="problem")], value=problem):
                yield from texts_of(problem)


def texts_of(node):
    return [next(iter(texts(node)))]


@pytest.mark.parametrize("problem", sorted(set(problems_of_preflight())))
def test_every_refusal_of_preflight_is_in_the_table(problem):
    # The table may leave out what follows in brackets, and how a figure comes about.
    pieces = [piece.strip(" ,(") for piece in problem.split("…")]
    assert max(pieces, key=len) in TROUBLE


def refusals_of_the_command():
    """The problem, before the remedy, of each refusal about AWS, the stack, or a run's name."""
    for name in ("errors", "stack", "run_ids"):
        for node in ast.walk(SOURCES[ROOT / "cli" / f"{name}.py"]):
            match node:
                case ast.Call(func=ast.Name(id="Refusal"), args=[said, *_]):
                    yield texts_of(said)[0].partition(";")[0]


@pytest.mark.parametrize("problem", sorted(set(refusals_of_the_command())))
def test_every_refusal_about_aws_the_stack_or_a_run_is_in_the_table(problem):
    pieces = [piece.strip(" ,().") for piece in problem.split("…")]
    assert max(pieces, key=len) in TROUBLE


def test_preflights_refusals_are_found_in_its_code():
    assert len(set(problems_of_preflight())) > 25
    assert len(set(refusals_of_the_command())) > 15


# -- security


def test_the_tables_of_rights_are_what_templates_and_manifests_say_now():
    assert access_reference.PAGE.read_text("utf-8") == access_reference.page(), "make docs"


def test_every_role_of_every_template_is_in_the_table():
    page = (DOCS / "security.md").read_text("utf-8")
    roles = {
        name
        for path in (ROOT / "templates").glob("*.yaml")
        for name in re.findall(r"^  (\w+):\n    Type: AWS::IAM::Role$", path.read_text(), re.M)
    }
    assert len(roles) > 15
    assert {name for name in roles if f"| `{name}` |" not in page} == set()


@pytest.mark.parametrize("page", ["security.md", "troubleshooting.md"])
def test_the_ports_that_are_named_are_the_tools_ports(page):
    ports = set()
    for name in tools.names():
        test: type[TestBase] = tools.test_class(name)
        server = test.model_validate({"name": "x", "tool": name}).server
        ports |= {server.port} if server else set()
    text = (DOCS / page).read_text("utf-8")
    assert all(str(port) in text for port in ports)


def test_nothing_of_ours_filters_the_network_of_pods():
    """security.md says that there is no NetworkPolicy."""
    assert "no NetworkPolicy" in (DOCS / "security.md").read_text("utf-8")
    for path in [*(ROOT / "templates").glob("*.yaml"), *(ROOT / "functions").rglob("*.py")]:
        assert "NetworkPolicy" not in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("templates/nodegroup.yaml", ["HttpTokens: required", "HttpPutResponseHopLimit: 1"]),
        ("templates/nodegroup.yaml", ["Encrypted: true"]),
        ("templates/results.yaml", ["PointInTimeRecoveryEnabled: true", "Sid: OnlyOverTls"]),
        ("templates/results.yaml", ["RestrictPublicBuckets: true", "BucketOwnerEnforced"]),
        ("templates/cluster.yaml", ["BootstrapClusterCreatorAdminPermissions: true"]),
    ],
)
def test_what_security_says_of_a_template_stands_there(file, words):
    text = (ROOT / file).read_text("utf-8")
    assert [each for each in words if each not in text] == []


def test_pods_are_as_harmless_and_as_small_as_the_pages_say():
    spec = manifests.pod_spec("pod")
    container = manifests.container("x", ["x"], "image")
    assert f"user {spec['securityContext']['runAsUser']}," in page("security.md")
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "64Mi"}
    assert "100m CPU and 64 MiB" in TROUBLE
    assert container["resources"]["limits"] == {"memory": "512Mi"}
    assert "more than 512 MiB" in TROUBLE


def test_a_link_holds_as_long_as_security_says():
    assert links.LINK_SECONDS == 12 * 3600
    assert "twelve hours at most" in " ".join(page("security.md").split())


def page(name):
    return (DOCS / name).read_text("utf-8")


# -- parameters and outputs of the stack


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_parameters_and_outputs_that_a_page_names_exist(path):
    text = path.read_text("utf-8")
    named = set(re.findall(r"`([A-Z][A-Za-z]+)=[^`\s]*`", text))
    for line in re.findall(r"--parameter-overrides (.*)$", text, re.MULTILINE):
        if "Repository=" not in line:  # of docs/ci/roles.yaml
            named |= set(re.findall(r"([A-Z]\w+)=", line))
    assert named - set(TEMPLATE["Parameters"]) - OTHERS == set()
    outputs = set(re.findall(r"OutputKey==['`](\w+)['`]", text))
    assert outputs - set(TEMPLATE["Outputs"]) == set()


#: Parameters of docs/ci/roles.yaml.
OTHERS = {"ProviderArn", "Repository", "ArtifactBucketName"}


# -- figures


def test_the_figures_of_the_page_on_verdicts_are_those_of_the_demo_in_the_readme():
    (printed,) = (
        block.text
        for block in blocks_of(ROOT / "README.md")
        if block.language == "text" and "Warm-up trials" in block.text
    )
    page = (DOCS / "reading-a-verdict.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:tcp-\d|rtt|ceiling|spread|share)[^|]*\|(.+)\|$", page, re.MULTILINE)
    assert len(rows) == 10
    words = " ".join(printed.split())
    cells = [cell.strip() for row in rows for cell in row.split("|") if cell.strip()]
    missing = [cell for cell in cells if cell not in words and cell not in SPLIT]
    assert missing == []


#: Words that the terminal's table breaks over two lines.
SPLIT = {"no meaningful difference"}


def test_the_readme_prints_what_the_command_prints_of_that_run_today():
    """The results of the run are kept beside this test."""
    content = (Path(__file__).parent / "data" / "demo.results.json").read_bytes()
    printed = io.StringIO()
    results = Results.read(content, "demo")
    print_results(Console(file=printed, width=80, highlight=False), results, None)
    readme = (ROOT / "README.md").read_text("utf-8")
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    assert "\n".join(lines) in readme


def test_the_conclusion_of_the_first_page_is_that_of_the_demo():
    page = (DOCS / "index.md").read_text("utf-8")
    shown = " ".join(re.findall(r"^> (.*)$", page, re.MULTILINE))
    assert "better" in shown
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert " ".join(shown.split()) in readme
