"""docs/ci.md and its examples match .taskcat.yml, and their roles trust only the workflow."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from lab.aws.cloudformation.template import parse_template
from tests.taskcat.deploying import ROOT
from tests.taskcat.test_configuration import IN_AN_ACCOUNT, PLACEHOLDER, TESTS

PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "nightly.yml").read_text("utf-8"))
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
ROLES = ROOT / "docs" / "ci" / "roles.yaml"


def test_the_nightly_groups_hold_every_test_once_and_fit_in_an_account() -> None:
    groups = [group.split(",") for group in JOBS["taskcat"]["strategy"]["matrix"]["tests"]]
    assert sorted(name for group in groups for name in group) == sorted(TESTS)
    assert max(map(len, groups)) <= 4


def test_one_workflow_and_one_group_run_at_a_time_and_every_job_has_a_time_out() -> None:
    assert WORKFLOW["concurrency"] == {"group": "rackrate-taskcat", "cancel-in-progress": False}
    assert JOBS["taskcat"]["strategy"]["max-parallel"] == 1
    assert {name for name, job in JOBS.items() if "timeout-minutes" not in job} == set()


def test_only_jobs_that_use_aws_may_ask_for_a_token_and_none_may_write() -> None:
    granted = {name: job.get("permissions", WORKFLOW["permissions"]) for name, job in JOBS.items()}
    assert granted == {
        "checks": {"contents": "read"},
        "taskcat": {"contents": "read", "id-token": "write"},
        "leftovers": {"id-token": "write"},
    }


def test_credentials_come_from_a_role_and_last_as_long_as_the_job() -> None:
    role = parse_template(ROLES.read_text("utf-8"))["Resources"]["WorkflowRole"]["Properties"]
    for name in ("taskcat", "leftovers"):
        (step,) = (
            step
            for step in JOBS[name]["steps"]
            if step.get("uses", "").startswith("aws-actions/configure-aws-credentials@")
        )
        assert "role-to-assume" in step["with"]
        seconds = step["with"].get("role-duration-seconds", 3600)
        assert JOBS[name]["timeout-minutes"] * 60 <= seconds <= role["MaxSessionDuration"]


def test_the_trust_policy_names_one_repository_and_environment_without_a_pattern() -> None:
    role = parse_template(ROLES.read_text("utf-8"))["Resources"]["WorkflowRole"]["Properties"]
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": {
                "Fn::Sub": "repo:${Repository}:environment:${Environment}"
            },
        }
    }
    assert JOBS["taskcat"]["environment"] == JOBS["leftovers"]["environment"] == "aws-tests"


@pytest.mark.parametrize(
    ("repository", "taken"),
    [
        ("owner/name", True),
        ("my-owner/my.name_2", True),
        ("owner@123/name@456", True),
        ("owner@123/name", False),
        ("owner@123/*", False),
        ("owner/name:ref:refs/heads/main", False),
        ("owner/name@456", False),
        ("owner@/name@", False),
    ],
)
def test_a_repository_is_named_as_its_tokens_name_it(repository: str, taken: bool) -> None:
    pattern = parse_template(ROLES.read_text("utf-8"))["Parameters"]["Repository"]["AllowedPattern"]
    assert (re.fullmatch(pattern, repository) is not None) == taken


def test_the_page_lists_what_an_account_has_to_hold_for_which_test() -> None:
    listed = dict(re.findall(r"\| `(/rackrate/taskcat/[a-z-]+)` \| `([a-z-]+)` \|", PAGE))
    used = {
        name: test
        for test, parameters in TESTS.items()
        for value in parameters.values()
        for name in PLACEHOLDER.findall(value)
    }
    assert listed == used
    assert set(listed) == set(IN_AN_ACCOUNT)


# -- the action

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


def test_no_input_of_the_action_becomes_a_part_of_a_command() -> None:
    steps = ACTION["runs"]["steps"]
    assert not [step["name"] for step in steps if "${{" in step["run"]]


def test_the_action_gives_its_script_every_input_that_it_reads() -> None:
    script = (ROOT / "scripts" / "action").read_text("utf-8")
    read = set(re.findall(r"\$\{?(INPUT_[A-Z]+)", script))
    (measure,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "measure")
    assert read == set(measure["env"])
    inputs = {f"INPUT_{name.upper()}" for name in ACTION["inputs"]}
    assert read == inputs - {"INPUT_COMMENT", "INPUT_TOKEN"}


def test_the_page_on_ci_names_every_input_of_the_action() -> None:
    assert not [name for name in ACTION["inputs"] if f"`{name}`" not in PAGE]


def test_the_action_installs_only_what_its_lock_names_by_hash() -> None:
    (install, *_) = ACTION["runs"]["steps"]
    commands = [line for line in install["run"].splitlines() if " install " in line]
    for command in commands:
        by_hash = "--require-hashes" in command and "--only-binary :all:" in command
        assert by_hash or {"--no-deps", "--no-build-isolation", "--no-index"} <= set(
            command.split()
        )
    assert len(commands) == 2
    lock = (ROOT / "requirements" / "action.txt").read_text("utf-8")
    names = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    assert {re.split(r"[\[<>=]", each)[0] for each in needed} <= names


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_no_example_uses_an_action_of_a_branch(page: str) -> None:
    used = re.findall(r"uses: (\S+)@(\S+)", (ROOT / page).read_text("utf-8"))
    assert not [name for name, ref in used if not re.fullmatch(r"v[\dX.YZ]+|[0-9a-f]{40}", ref)]
