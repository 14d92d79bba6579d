"""EKS add-ons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import Place, possible


class AddonConfigurationIsJson(Rule):
    id = "E9031"
    shortdesc = "An add-on's ConfigurationValues are a JSON object"
    description = (
        "EKS reads ConfigurationValues against the add-on's JSON schema, when the add-on is "
        "created, which is late to learn of a missing brace. Texts with `${}` are read with a 0 "
        "in each place; what comes from a parameter alone cannot be checked."
    )
    source_url = "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, found, _ in possible(cfn, "AWS::EKS::Addon", "ConfigurationValues"):
            fault = _fault(found.get("ConfigurationValues"))
            if fault:
                yield (
                    ["Resources", logical_id, "Properties", "ConfigurationValues"],
                    f"ConfigurationValues {fault}; write a JSON object, such as "
                    '{"env": {"ENABLE_PREFIX_DELEGATION": "true"}}',
                )


def _fault(value: Any) -> str | None:
    """The fault of a value, or None."""
    text = value.get("Fn::Sub") if isinstance(value, dict) else value
    text = text[0] if isinstance(text, list) and text else text
    if not isinstance(text, str):
        return None
    try:
        parsed = json.loads(re.sub(r"\$\{[^!}][^}]*\}", "0", text))
    except ValueError as error:
        return f"are not JSON ({error})"
    return None if isinstance(parsed, dict) else f"are JSON, but a {type(parsed).__name__}"
