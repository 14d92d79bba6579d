"""The tables of docs/security.md: who may call what, from the templates and the manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rackrate.stack import tenancy
from scripts.markdown import ROOT, table, with_part
from scripts.parameters import load

PAGE = ROOT / "docs" / "security.md"
TEMPLATES = sorted((ROOT / "templates").glob("*.yaml"))

Json = Mapping[str, Any]


def render() -> str:
    """The tables, as Markdown."""
    names = ("NAMESPACE", "rackrate:NAMESPACE", "STACK")
    manifests = [*tenancy.manifests(*names), *tenancy.host_manifests(*names)]
    rows = (row for path in TEMPLATES for row in _roles(path))
    roles = table(("role", "of", "may", "on any resource"), rows)
    rules = table(("kind", "name", "may"), _rules(manifests))
    return f"### Roles in AWS\n\n{roles}\n\n### Rights in the cluster\n\n{rules}\n"


def _roles(path: Path) -> Iterator[tuple[str, ...]]:
    for name, resource in sorted(load(path)["Resources"].items()):
        kind, properties = resource["Type"], resource["Properties"]
        if kind == "AWS::IAM::Role":
            yield _row(f"`{name}`", _trusted(properties), _statements(properties))
        elif kind == "AWS::IAM::ManagedPolicy":
            yield _row(f"`{name}`", "every function of the run", [properties["PolicyDocument"]])


def _row(name: str, trusted: str, documents: Sequence[Any]) -> tuple[str, ...]:
    """A role with what it may do; what only a condition of the template grants counts too."""
    restricted: set[str] = set()
    anything: set[str] = set()
    managed: set[str] = set()
    for document in documents:
        for statement in _find(document, "Effect"):
            if statement["Effect"] == "Allow":
                kept = anything if statement["Resource"] == "*" else restricted
                kept |= _actions(statement["Action"])
        managed |= set(re.findall(r":iam::aws:policy/([\w/-]+)", str(document)))
    policies = [f"AWS's `{policy.split('/')[-1]}`" for policy in sorted(managed)]
    may = "; ".join([*_by_service(restricted), *policies])
    return name, trusted, may, "; ".join(_by_service(anything))


def _statements(properties: Json) -> list[Any]:
    return [properties.get("Policies", []), properties.get("ManagedPolicyArns", [])]


def _trusted(properties: Json) -> str:
    (statement,) = properties["AssumeRolePolicyDocument"]["Statement"]
    return re.sub(r"\W.*", "", _text(statement["Principal"]["Service"]))


def _text(value: Any) -> str:
    return str(value["Fn::Sub"]) if isinstance(value, Mapping) else str(value)


def _find(value: Any, key: str) -> Iterator[Json]:
    """The mappings with a key, however deep they are in choices of the template."""
    if isinstance(value, Mapping):
        if key in value:
            yield value
        else:
            for each in value.values():
                yield from _find(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _find(each, key)


def _by_service(actions: set[str]) -> list[str]:
    parted = sorted(action.split(":") for action in actions)
    return [
        f"{service}: " + ", ".join(f"`{name}`" for _, name in names)
        for service, names in groupby(parted, key=lambda each: each[0])
    ]


def _rules(manifests: Sequence[Json]) -> Iterator[tuple[str, ...]]:
    for manifest in manifests:
        kind, metadata = manifest["kind"], manifest["metadata"]
        name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        if kind in ("Role", "ClusterRole"):
            may = "; ".join(
                f"{', '.join(f'`{verb}`' for verb in rule['verbs'])} {', '.join(rule['resources'])}"
                for rule in manifest["rules"]
            )
            yield kind, f"`{name}`", may
        elif kind == "Namespace":
            levels = metadata["labels"]["pod-security.kubernetes.io/enforce"]
            yield kind, f"`{name}`", f"Pod Security `{levels}`"
        elif kind == "ValidatingAdmissionPolicy":
            rules = [each["message"].partition(": ")[2] for each in manifest["spec"]["validations"]]
            yield kind, f"`{name}`", f"admits only pods with: {'; '.join(rules)}"


def _actions(value: Any) -> set[str]:
    """The actions of a statement, also those that a choice of the template adds."""
    if isinstance(value, str):
        # The name of a condition has no service before it.
        return {value} if ":" in value else set()
    return set().union(*map(_actions, value.values() if isinstance(value, Mapping) else value))


def documents() -> dict[Path, str]:
    """The page, as it should be."""
    return {PAGE: with_part(PAGE.read_text("utf-8"), "access", render())}
