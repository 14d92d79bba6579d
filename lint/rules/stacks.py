"""Exports and ARNs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import Place, walk

USER_GUIDE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide"


class NoExports(Rule):
    id = "W9112"
    shortdesc = "Outputs are not exported"
    description = (
        "An export that another stack imports can be neither changed nor deleted; nested stacks "
        "hand values on by parameters."
    )
    source_url = f"{USER_GUIDE}/using-cfn-stack-exports.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        outputs = cfn.template.get("Outputs")
        for name, output in (outputs if isinstance(outputs, dict) else {}).items():
            if isinstance(output, dict) and "Export" in output:
                yield (
                    ["Outputs", name, "Export"],
                    f"Export ties other stacks to {name}; remove it and pass the value as a "
                    "parameter",
                )


class NoLiteralPartition(Rule):
    id = "W9113"
    shortdesc = "ARNs take their partition from AWS::Partition"
    description = (
        "`arn:aws:` is wrong in China and GovCloud. cfn-lint's own I3042 does not look into "
        "templates with the serverless transform."
    )
    source_url = f"{USER_GUIDE}/pseudo-parameter-reference.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for section in ("Resources", "Outputs", "Conditions", "Globals", "Mappings"):
            for place, value in walk(cfn.template.get(section), [section]):
                if isinstance(value, str) and re.search(r"\barn:aws[a-z-]*:", value):
                    yield (
                        place,
                        f"{value} has its partition written out; use "
                        "!Sub arn:${AWS::Partition}:...",
                    )
