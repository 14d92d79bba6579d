"""The linters that a user would run find nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.templates.cloudformation import ROOT, TEMPLATES


def test_plain_cfn_lint_in_the_root_finds_nothing_in_any_template():
    """Its configuration names the templates and adds the rules of lint/."""
    command = [Path(sys.executable).with_name("cfn-lint"), "--format", "parseable"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("path", TEMPLATES, ids=[path.stem for path in TEMPLATES])
def test_sam_validate_lint_finds_nothing(path, monkeypatch):
    """The command itself, in this process, because loading it takes longer than it runs."""
    from samcli.cli.main import cli

    monkeypatch.chdir(ROOT)
    for name, value in {"SAM_CLI_TELEMETRY": "0", "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(cli, ["validate", "--lint", "--template", str(path)])
    assert done.exit_code == 0, done.output
    assert "is a valid SAM Template" in done.output
