"""Nested stacks, exports, log groups and ARNs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import Place, pick, properties, resolved, resources, scenarios, walk

USER_GUIDE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide"


class NestedStackTags(Rule):
    id = "W9111"
    shortdesc = "A nested stack has Tags"
    description = (
        "CloudFormation hands a nested stack's tags to every resource in it: the one place to "
        "allocate their cost."
    )
    source_url = f"{USER_GUIDE}/cfn-console-add-tags.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, stack in resources(cfn, "AWS::CloudFormation::Stack"):
            part = pick(properties(stack), "Tags")
            for scenario in scenarios(cfn, part, given=[stack]):
                if not resolved(part, scenario).get("Tags"):
                    yield (
                        ["Resources", logical_id, "Properties"],
                        f"{logical_id} has no Tags; add the cost-allocation tags, which reach "
                        "every resource of a nested stack",
                    )


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


class LogRetention(Rule):
    id = "W9114"
    shortdesc = "A log group forgets"
    description = (
        "Without RetentionInDays CloudWatch keeps logs, and charges for them, for ever. "
        "cfn-lint's own I3013 does not know log groups."
    )
    source_url = (
        "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/"
        "API_PutRetentionPolicy.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, group in resources(cfn, "AWS::Logs::LogGroup"):
            part = pick(properties(group), "RetentionInDays")
            for scenario in scenarios(cfn, part, given=[group]):
                if "RetentionInDays" not in resolved(part, scenario):
                    yield (
                        ["Resources", logical_id],
                        f"RetentionInDays of {logical_id} is not set, so it keeps logs for ever; "
                        "set it",
                    )
