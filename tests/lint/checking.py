"""Run one rule on one template, as cfn-lint does."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

from cfnlint.decode import decode
from cfnlint.template import Template

from lint.rule import Rule

Check = Callable[[type[Rule], str], list[str]]


def check(path: Path, rule: type[Rule], text: str) -> list[str]:
    """A rule's findings in a template, each as `<place>: <message>`.

    An error in a rule raises here. cfn-lint would turn it into a finding.
    """
    path.write_text(textwrap.dedent(text))
    template, faults = decode(str(path))
    assert not faults, faults
    cfn = Template(str(path), template, ["us-east-1"])
    assert not cfn.transform()
    return [f"{match.path_string}: {match.message}" for match in rule().match(cfn)]
