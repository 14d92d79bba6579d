"""Each block of commands in the documentation runs here or elsewhere, or needs AWS."""

from __future__ import annotations

import functools
import io
import json
import re
import shlex
import subprocess
import tempfile
import tomllib
from contextlib import chdir, redirect_stderr
from pathlib import Path

import click
import pytest
import typer
import yaml

from tests.docs.blocks import (
    AWS_ONLY,
    BLOCKS,
    LAB,
    PAGES,
    ROOT,
    Block,
    blocks_of,
    commands,
    copy_of_repository,
    shell,
)
from tests.unit.plan.test_reference import VALIDATOR, is_taken
from tests.waiting import HUNG_SECONDS

LANGUAGES = {"sh", "json", "yaml", "toml", "python", "sql", "csv", "html", "xml", "text"}
#: Commands that continuous integration runs elsewhere: the file, and text of the step in it.
STEPS = {
    "make lint": (".ci/run", "make setup lint test"),
    "make test": (".ci/run", "make setup lint test"),
    "make test-rest": (".ci/run", "make setup lint test test-rest"),
    "make test-changed": ("tests/unit/test_changed_tests.py", "dependent_tests([path])"),
    "make site": ("Makefile", "taskcat-lint site"),
    "make taskcat-lint": ("Makefile", "taskcat-lint site"),
    "make test-unit": ("Makefile", "pytest $(both_cores) $(unit)"),
    "make test-integration": ("Makefile", "pytest $(both_cores) $(integration)"),
    "make demo": ("tests/lab/measured/test_demo_plan.py", '"docs" / "plans" / "demo.json"'),
    # The lab of tests/lab starts and stops with the same two calls.
    "make lab-up": ("tests/lab/conftest.py", "bring_up("),
    "make lab-down": ("tests/lab/conftest.py", "daemon.stop()"),
    "make test-tool": ("Makefile", "tool := tests/unit/tools "),
    # tests/unit/tools/test_capturing.py tests this with a made-up tool.
    '.venv/bin/python -m scripts.capture sockperf 3.7 tcp-ping-pong={"seconds": 2}'
    ' udp-ping-pong={"seconds": 2, "protocol": "udp"}': (
        "Makefile",
        "tool := tests/unit/tools ",
    ),
}
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
#: Programs of the system. These tests do not check their options.
SYSTEM = {"cat", "head", "jq", "kubectl", "ls", "python3", "xdg-open"}


def identified(blocks):
    return pytest.mark.parametrize("block", blocks, ids=map(str, blocks))


@pytest.fixture(autouse=True)
def quick_yaml(monkeypatch):
    """Give the SAM CLI a loader of its own, because it changes it; that of libyaml is quick."""
    monkeypatch.setattr(yaml, "SafeLoader", type("Loader", (yaml.CSafeLoader,), {}))


def of_language(language):
    return [block for block in BLOCKS if block.language == language]


# -- all blocks


def test_every_block_is_of_a_language_and_a_kind_that_is_checked():
    assert len(BLOCKS) > 20
    unknown = [str(block) for block in BLOCKS if block.language not in LANGUAGES]
    unmarked = [
        str(block)
        for block in BLOCKS
        if block.language == "sh" and block.title not in ("", AWS_ONLY, LAB)
    ]
    assert (unknown, unmarked) == ([], [])


def test_text_holds_no_commands():
    """Nobody would run commands in such a block."""
    lines = [
        f"{block}: {line}"
        for block in BLOCKS
        if block.language == "text"
        for line in block.text.splitlines()
        if re.match(
            r"\s*([$#] |make |rackrate (run|list|show)\b|aws [a-z0-9-]+ |kubectl |sam )", line
        )
    ]
    assert lines == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_names_the_labs_commands_by_their_targets(path):
    """They work from any directory, and need no active environment."""
    if path.name != "CHANGELOG.md":  # which also says what became of `python -m lab`
        assert "python -m lab " not in path.read_text("utf-8")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_that_a_page_names_in_its_text_exist(path):
    named = set(re.findall(r"`make ([a-z][a-z-]*)", path.read_text("utf-8")))
    assert named - TARGETS == set()


# -- blocks that are run here


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return copy_of_repository(tmp_path_factory.mktemp("repository"))


@identified(shell(""))
def test_a_plain_block_is_run_or_names_the_step_of_ci_that_runs_it(block: Block, repository):
    read = commands(block.text)
    assert read, "it holds no command"
    left = [argv for argv in read if " ".join(argv) not in STEPS]
    for argv in read:
        if argv not in left:
            path, words = STEPS[" ".join(argv)]
            assert words in (ROOT / path).read_text("utf-8"), f"{path} runs {argv} no more"
    # Commands that no other command depends on need no shell.
    to_run = [["bash", "-euc", block.text]] if left == read else left
    for argv in to_run:
        done = subprocess.run(
            argv, cwd=repository, capture_output=True, text=True, timeout=HUNG_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_step_of_ci_that_is_named_is_named_by_a_page():
    named = {" ".join(argv) for block in shell("") for argv in commands(block.text)}
    assert set(STEPS) <= named


# -- blocks that need AWS or the lab: checks without them


@identified([*shell(AWS_ONLY), *shell(LAB)])
def test_the_commands_of_a_block_exist_and_take_their_options(block: Block):
    read = commands(block.text)
    assert read, "it holds no command"
    for argv in read:
        check_command(argv)


@pytest.mark.parametrize(
    "text",
    [
        "rackrate run --no-such-option",
        "rackrate dance",
        "aws stepfunctions start-executions --input '{}'",
        "aws dynamodb scan --table x",
        "sam deploy --no-such-option",
        "make no-such-target",
        "make lab-fault ARGS='kubelet-killed --no-such-option'",
        "terraform apply",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(text):
    (argv,) = commands(text)
    with pytest.raises(AssertionError):
        check_command(argv)


def test_bash_itself_reads_the_commands():
    text = (
        "A=1 rackrate run --plan x.json # not this\n"
        'aws s3 ls "$(aws sts get-caller-identity \\\n  --query Account)" | jq . >out.json\n'
        ". .venv/bin/activate\n.venv/bin/python -m scripts.capture\n"
    )
    read = commands(text)
    assert ["rackrate", "run", "--plan", "x.json"] in read
    assert ["aws", "sts", "get-caller-identity", "--query", "Account"] in read
    assert ["aws", "s3", "ls", ""] in read
    assert ["jq", "."] in read
    assert [".venv/bin/python", "-m", "scripts.capture"] in read
    assert len(read) == 5
    with pytest.raises(AssertionError, match="unexpected EOF"):
        commands("rackrate run 'one quote")


def check_command(argv: list[str]) -> None:
    """Assert that a command could be started: its program, subcommand and options exist."""
    program, *rest = argv
    match program:
        case "rackrate":
            from rackrate_cli.main import app

            check_click(click_of(app), program, rest)
        case "sam":
            from samcli.cli.main import cli

            # Without .aws-sam/build, which a lab may be writing now: sam reads it if it is there.
            with tempfile.TemporaryDirectory() as directory, chdir(directory):
                roots = ("template.yaml", "existing-cluster.yaml")
                for part in (*roots, "templates", "functions", "samconfig.toml"):
                    Path(part).symlink_to(ROOT / part)
                # The settings name what `sam build` made of it.
                built = Path(".aws-sam", "existing-cluster", "template.yaml")
                built.parent.mkdir(parents=True)
                built.symlink_to(ROOT / "existing-cluster.yaml")
                check_click(cli, program, rest)
        case "aws":
            check_aws(rest)
        case "make":
            targets = {word for word in rest if "=" not in word and not word.startswith("-")}
            assert targets <= TARGETS, f"no target {targets - TARGETS}"
            for arguments in (word[5:] for word in rest if word.startswith("ARGS=")):
                from lab.__main__ import app as lab

                name = rest[0].removeprefix("lab-")
                check_click(click_of(lab), "lab", [name, *shlex.split(arguments)])
        case ".venv-taskcat/bin/taskcat":
            pass  # taskcat has another environment
        case _:
            assert program in SYSTEM, f"{program} is no program that a reader must have"


#: Making it takes a fifth of the time of these tests.
click_of = functools.cache(typer.main.get_command)


def check_click(command: click.Command, name: str, rest: list[str]) -> None:
    """Parse a command line as click does, without running anything.

    typer has its own copy of click, so this recognizes commands by their attributes.
    """
    context = None
    while True:
        try:
            with redirect_stderr(io.StringIO()):
                context = command.make_context(name, list(rest), parent=context)
        except Exception as error:  # each copy of click has its own classes
            if type(error).__name__ == "Exit":
                return  # --help, --version
            raise AssertionError(f"{name} {' '.join(rest)}: {error!r}") from error
        if not hasattr(command, "resolve_command"):
            return
        held = getattr(context, "_protected_args", None)  # click 8.2 and later
        held = context.protected_args if held is None else held
        remaining = [*held, *context.args]
        assert remaining, f"{name} needs a command"
        try:
            name, command, rest = command.resolve_command(context, remaining)
        except Exception as error:
            raise AssertionError(f"{' '.join(remaining)}: {error!r}") from error


@functools.cache
def aws_driver():
    """The AWS CLI."""
    from awscli.clidriver import create_clidriver

    return create_clidriver()


def check_aws(words: list[str]) -> None:
    """Assert that an operation of the AWS CLI exists and has these options."""
    driver = aws_driver()
    # The CLI has no public API for its tables. Its own completer uses these methods.
    services, options = driver._get_command_table(), set(driver._get_argument_table())
    name, operation = words[:2]
    assert name in services, f"aws has no service {name}"
    service = services[name]
    own = getattr(service, "subcommand_table", None)  # of the CLI's own, such as s3
    operations = service._get_command_table() if own is None else own
    assert operation in operations, f"aws {name} has no operation {operation}"
    options |= set(operations[operation].arg_table)
    named = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    assert named <= options, f"aws {name} {operation} has no option {named - options}"


# -- blocks of other languages


def test_json_is_json_and_a_plan_is_a_valid_plan():
    for block in of_language("json"):
        check_plan(json.loads(block.text))


@identified([b for b in BLOCKS if b.language == "sh" and "<<'PLAN'" in b.text])
def test_a_plan_that_a_block_writes_is_valid(block: Block):
    for text in re.findall(r"<<'PLAN'\n(.*?)\nPLAN\n", block.text, re.DOTALL):
        plan = json.loads(text)
        assert is_plan(plan)
        check_plan(plan)


def is_plan(document) -> bool:
    return isinstance(document, dict) and set(document) <= set(VALIDATOR.schema["properties"])


def check_plan(document) -> None:
    if is_plan(document):
        VALIDATOR.validate(document)
        assert is_taken(document, dict.fromkeys(("treatment", "baseline"), 12))


def test_configuration_can_be_read():
    for block in of_language("toml"):
        assert tomllib.loads(block.text), str(block)
    for block in of_language("yaml"):
        assert list(yaml.compose_all(block.text)), str(block)


@identified(of_language("python"))
def test_python_is_quoted_from_the_file_that_its_title_names(block: Block):
    source = (ROOT / block.title).read_text("utf-8")
    lines = [line.strip() for line in source.splitlines()]
    quoted = [line.strip() for line in block.text.splitlines()]
    assert any(lines[start : start + len(quoted)] == quoted for start in range(len(lines))), (
        f"{block.title} says so no more"
    )


def test_blocks_are_read_where_they_are_indented_and_nested(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        '1. One\n\n   ```sh title="Lab"\n   ls\n   ```\n\n````text\n```sh\nls\n```\n````\n'
    )
    blocks = list(blocks_of(page))
    assert [(b.language, b.title, b.text) for b in blocks] == [
        ("sh", "Lab", "ls\n"),
        ("text", "", "```sh\nls\n```\n"),
    ]
    assert len(PAGES) > 15
