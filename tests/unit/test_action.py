"""What action.yml runs: it obeys no line of output, no name and no comment of anybody else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

#: Stands for the command: it prints what a tool's error could contain, and has no results.
RACKRATE = """#!/bin/bash
[ "$1" = export ] && exit 1
printf '::set-output name=summary::evil\\n##[add-path]/evil\\r@evil-team\\n%s' "$(
  printf 'x%.0s' {1..9000})"
exit 1
"""


@pytest.fixture
def act(tmp_path):
    """Run the measuring step. Returns its exit code, its standard output and its outputs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rackrate").write_text(RACKRATE)
    (tmp_path / "bin" / "rackrate").chmod(0o755)

    def run(**inputs):
        environment = {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            **{f"INPUT_{name}": "" for name in ("PLAN", "CAMPAIGN", "REQUIRE")},
            "INPUT_STACK": "rackrate",
            "INPUT_NAME": "ci-1",
            "INPUT_OUT": "out",
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
            "GITHUB_RUN_ID": "11",
            "GITHUB_RUN_ATTEMPT": "2",
            "GITHUB_OUTPUT": "outputs",
            "GITHUB_STEP_SUMMARY": "summary",
        }
        done = subprocess.run(
            [SCRIPTS / "action"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        outputs = tmp_path / "outputs"
        return done.returncode, done.stdout, outputs.read_text() if outputs.exists() else ""

    return run


def test_no_line_of_output_is_a_command_to_the_runner(act):
    """As GitHub's runner reads: no command counts until the token comes back on its own line."""
    _, first, _ = act()
    _, second, _ = act()
    tokens = []
    for text in (first, second):
        token, inside, rest = re.fullmatch(
            r"::stop-commands::(\w{16,})\n(.*)\n::\1::\n(.*)", text, re.DOTALL
        ).groups()
        assert "::set-output" in inside and rest == ""
        tokens.append(token)
    assert len(set(tokens)) == 2, "nobody can guess the token"


def test_output_in_place_of_a_table_is_code_and_short(act, tmp_path):
    code, _, outputs = act()
    assert code == 1 and outputs == "name=ci-1\nsummary=out/ci-1.md\n"
    heading, _, *lines = (tmp_path / "out" / "ci-1.md").read_text().splitlines()
    assert "`ci-1`" in heading
    assert any("@evil-team" in line for line in lines)
    assert all(line.startswith("    ") and len(line) < 1000 for line in lines)
    assert (tmp_path / "summary").read_text().splitlines() == [heading, "", *lines]


@pytest.mark.parametrize(
    "inputs",
    [
        {"name": "../evil"},
        {"name": "ci\nsummary=/etc/passwd"},
        {"name": "ci\r"},
        {"name": "-x"},
        {"out": "out\nname=evil"},
        {"out": "../out"},
        {"out": "out/../../evil"},
        {"out": "out/.."},
        {"out": ""},
    ],
)
def test_a_name_or_directory_that_leaves_its_place_is_refused(act, tmp_path, inputs):
    code, printed, outputs = act(**inputs)
    assert (code, outputs) == (2, "")
    assert printed.startswith(f'::error::The input "{next(iter(inputs))}"')
    assert len(printed.splitlines()) == 1 and "evil" not in printed
    assert {path.name for path in tmp_path.iterdir()} == {"bin"}


def test_a_run_and_a_campaign_of_a_workflow_without_names_have_ids_of_their_own(act):
    ids = [act(name="", campaign=plan)[2].rpartition("name=")[2].split()[0] for plan in ("", "c")]
    assert ids == ["ci-11-2", "ci-11-2-campaign"]


def test_a_directory_elsewhere_may_be_named_by_its_whole_path(act, tmp_path):
    code, _, outputs = act(out=str(tmp_path / "else..where"))
    assert code == 1 and "else..where/ci-1.md" in outputs


# -- the comment


class GitHub(HTTPServer):
    """GitHub's GraphQL API with the comments of one pull request, two to a page."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.comments = []
        self.refusal = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add(self, body, *, mine=True):
        self.comments.append({"id": f"c{len(self.comments)}", "body": body, "mine": mine})

    @property
    def bodies(self):
        return [comment["body"] for comment in self.comments]

    def answer(self, query, variables):
        if self.refusal:
            return {"errors": [{"message": self.refusal}]}
        if "updateIssueComment" in query:
            (comment,) = (c for c in self.comments if c["id"] == variables["id"])
            comment["body"] = variables["body"]
        elif "addComment" in query:
            assert variables["id"] == "the-pull-request"
            self.add(variables["body"])
        else:
            assert (variables["owner"], variables["name"]) == ("owner", "name")
            assert variables["number"] == 7
            start = int(variables.get("after") or 0)
            nodes = [
                {"id": c["id"], "body": c["body"], "viewerDidAuthor": c["mine"]}
                for c in self.comments[start : start + 2]
            ]
            more = len(self.comments) > start + 2
            info = {"hasNextPage": more, "endCursor": str(start + 2) if more else None}
            request = {"id": "the-pull-request", "comments": {"nodes": nodes, "pageInfo": info}}
            return {"data": {"repository": {"pullRequest": request}}}
        return {"data": {}}


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.headers["Authorization"] == "Bearer secret"
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.answer(request["query"], request["variables"])).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def github():
    server = GitHub()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def comment(github, tmp_path):
    """Run the commenting step with a summary. Returns the finished process."""

    def run(summary, **environment):
        (tmp_path / "summary.md").write_bytes(summary.encode() if summary else b"\xff")
        usual = {
            "TOKEN": "secret",
            "NUMBER": "7",
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_WORKFLOW": "gate",
            "GITHUB_JOB": "measure",
            "INPUT_STACK": "rackrate",
            "INPUT_PLAN": "",
            "INPUT_CAMPAIGN": "",
            "SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_GRAPHQL_URL": f"http://127.0.0.1:{github.server_port}/graphql",
        }
        return subprocess.run(
            [sys.executable, SCRIPTS / "pull_request_comment.py"],
            env={**usual, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_action_edits_its_own_comment_and_no_other_of_the_same_bot(github, comment):
    for body in ("coverage", "lint", "licences"):
        github.add(body)
    assert comment("first").returncode == 0
    for body in ("benchmarks", "docs"):
        github.add(body)
    assert comment("second").returncode == 0
    own = github.comments.pop(3)["body"]
    assert own.endswith("\nsecond") and "first" not in own
    assert github.bodies == ["coverage", "lint", "licences", "benchmarks", "docs"]


def test_who_copies_the_mark_does_not_get_the_comment(github, comment):
    comment("first")
    (copied,) = github.bodies
    github.comments[0]["mine"] = False
    assert comment("second").returncode == 0
    assert github.bodies[0] == copied and github.bodies[1].endswith("\nsecond")


@pytest.mark.parametrize(
    "other",
    [
        {"INPUT_STACK": "other"},
        {"INPUT_PLAN": "plan.json"},
        {"INPUT_CAMPAIGN": "draws.json"},
        {"GITHUB_WORKFLOW": "-->\n@evil", "GITHUB_JOB": "x"},
    ],
)
def test_each_job_stack_and_plan_has_a_comment_of_its_own(github, comment, other):
    comment("first")
    comment("second", **other)
    comment("third", **other)
    assert [body.partition("\n")[2] for body in github.bodies] == ["first", "third"]
    assert all(re.fullmatch(r"<!-- \w+: \w+ -->", body.split("\n")[0]) for body in github.bodies)


def test_bytes_that_are_no_text_are_replaced(github, comment):
    assert comment(None).returncode == 0
    assert "\N{REPLACEMENT CHARACTER}" in github.bodies[0]


def test_a_refusal_is_one_line_with_github_s_reason(github, comment):
    github.refusal = "Resource not accessible by integration\n::error::evil"
    done = comment("first")
    assert done.returncode == 1
    assert "pull-requests" in done.stderr and "not accessible" in done.stderr
    assert len(done.stderr.splitlines()) == 1
