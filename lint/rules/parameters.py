"""Parameters of templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import Place, is_commented, line_of, parameters, source_lines

CONSTRAINTS = {"AllowedValues", "AllowedPattern", "MinValue", "MaxValue"}


class DescribedParameters(Rule):
    id = "W9131"
    shortdesc = "A parameter is described, and takes only what makes sense"
    description = (
        "Every parameter has a Description. In a template with AWS::CloudFormation::Interface, "
        "which people fill in, each has also AllowedValues, AllowedPattern, bounds or an AWS type "
        "that CloudFormation checks, or a comment that says why any text will do; an "
        "AllowedPattern has a ConstraintDescription, because the console shows the pattern "
        "otherwise. Nested templates get what the root has checked."
    )
    source_url = (
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"
        "parameters-section-structure.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        metadata = cfn.template.get("Metadata")
        is_form = isinstance(metadata, dict) and "AWS::CloudFormation::Interface" in metadata
        lines = source_lines(cfn)
        for name, parameter in parameters(cfn).items():
            place: Place = ["Parameters", name]
            if not parameter.get("Description"):
                yield place, f"Description of {name} is missing; say what it is for"
            if not is_form:
                continue
            if not self._is_constrained(parameter) and not self._has_reason(cfn, lines, name):
                yield (
                    place,
                    f"{name} takes anything; add AllowedValues, AllowedPattern or bounds, or "
                    "a comment that says why not",
                )
            if "AllowedPattern" in parameter and "ConstraintDescription" not in parameter:
                yield (
                    [*place, "AllowedPattern"],
                    f"AllowedPattern of {name} is what people read when they err; add a "
                    "ConstraintDescription",
                )

    @staticmethod
    def _is_constrained(parameter: dict[str, Any]) -> bool:
        return bool(CONSTRAINTS & parameter.keys()) or "AWS::" in str(parameter.get("Type"))

    @staticmethod
    def _has_reason(cfn: Template, lines: list[str] | None, name: str) -> bool:
        first = line_of(cfn, ["Parameters", name])
        if lines is None or first is None:
            return lines is None
        last = first
        indent = len(lines[first]) - len(lines[first].lstrip())
        while last + 1 < len(lines):
            following = lines[last + 1]
            if following.strip() and len(following) - len(following.lstrip()) <= indent:
                break
            last += 1
        return is_commented(lines, first, last)
