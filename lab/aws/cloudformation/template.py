"""Reading templates: YAML with CloudFormation's short tags, or JSON, and the SAM transform."""

from __future__ import annotations

import copy
import functools
import json
import logging
from typing import Any

import yaml

from lab.aws.cloudformation.coercion import text

# The translator warns of metrics that it would send to AWS.
logging.getLogger("samtranslator").setLevel(logging.ERROR)

SAM_TRANSFORM = "AWS::Serverless-2016-10-31"


# The most entries of each section, and the largest template in the request and by URL.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
_MOST = {"Parameters": 200, "Mappings": 200, "Resources": 500, "Outputs": 200}
BODY_BYTES = 51_200
URL_BYTES = 1_000_000


class TemplateError(Exception):
    """The template cannot be used; the message is that of CloudFormation's ValidationError."""


class _Loader(yaml.CSafeLoader):
    """CSafeLoader without dates, because CloudFormation reads `Version: 2012-10-17` as a string.

    The parser in C needs a seventh of the time: a deployment reads 150 KB of nested templates.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _short_tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        if name == "Fn::GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


_Loader.add_multi_constructor("!", _short_tag)


def load_yaml(body: str) -> Any:
    """Parse YAML or JSON with CloudFormation's tags. Raises TemplateError."""
    try:
        if body.lstrip().startswith("{"):
            return json.loads(body)
        return yaml.load(body, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise TemplateError(f"Template format error: {error}") from error


def parse_template(body: str) -> dict[str, Any]:
    """The template as a dict, not yet transformed. Raises TemplateError."""
    template = load_yaml(body)
    if not isinstance(template, dict):
        raise TemplateError("Template format error: unsupported structure.")
    resources = template.get("Resources")
    if not isinstance(resources, dict) or not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    for logical_id, resource in resources.items():
        if not isinstance(resource, dict) or "Type" not in resource:
            raise TemplateError(
                f"Template format error: [/Resources/{logical_id}] Every Resources member must"
                " contain a Type."
            )
    return template


def check_limits(template: dict[str, Any]) -> None:
    """Refuse a template that exceeds CloudFormation's limits. Raises TemplateError."""
    for section, most in _MOST.items():
        count = len(template.get(section) or {})
        if count > most:
            raise TemplateError(
                f"Template format error: Number of {section.lower()}, {count}, is greater than"
                f" maximum allowed, {most}"
            )


def transforms_of(template: dict[str, Any]) -> list[str]:
    """The names in the template's Transform section."""
    declared = template.get("Transform", [])
    return [declared] if isinstance(declared, str) else list(declared)


def apply_transforms(
    template: dict[str, Any], parameters: dict[str, Any], region: str
) -> dict[str, Any]:
    """Run the declared transforms. Raises TemplateError on a bad or unknown one."""
    for name in transforms_of(template):
        if name != SAM_TRANSFORM:
            raise TemplateError(
                f"No transform named {name} found. This CloudFormation knows {SAM_TRANSFORM}."
            )
    if SAM_TRANSFORM not in transforms_of(template):
        return template
    return _serverless(template, parameters, region)


def _managed_policy_arns() -> dict[str, str]:
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    return {
        name: str(policy["Arn"])
        for name, policy in json.loads(aws_managed_policies_data).items()
        if "Arn" in policy
    }


def _serverless(
    template: dict[str, Any], parameters: dict[str, Any], region: str
) -> dict[str, Any]:
    # Imported here, because the translator takes longer to load than the server to start.
    import boto3
    from samtranslator.model.exceptions import InvalidDocumentException  # type: ignore[import-untyped]
    from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
    from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]

    values = {name: text(value) for name, value in parameters.items()}
    translator = Translator(None, Parser(), boto_session=boto3.Session(region_name=region))
    try:
        return translator.translate(  # type: ignore[no-any-return]
            copy.deepcopy(template),
            parameter_values=values,
            get_managed_policy_map=functools.cache(_managed_policy_arns),
        )
    except InvalidDocumentException as error:
        causes = "; ".join(cause.message for cause in error.causes)
        raise TemplateError(
            f"Transform {SAM_TRANSFORM} failed with: {error.message} {causes}"
        ) from error
