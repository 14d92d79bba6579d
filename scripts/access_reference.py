"""Write the tables of docs/security.md: each role's permissions, from templates and manifests."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rackrate.stack import tenancy
from scripts.markdown import ROOT, table, with_part
from scripts.parameters import load

PAGE = ROOT / "docs" / "security.md"
#: Characters of the actions in a cell, so that a row stays readable as text.
_WIDTH = 75
TEMPLATES = sorted((ROOT / "templates").glob("*.yaml"))

Json = Mapping[str, Any]


def render() -> str:
    """The tables as Markdown."""
    names = ("NAMESPACE", "rackrate:NAMESPACE", "STACK")
    manifests = [
        *tenancy.manifests(*names),
        *tenancy.keeper_manifests(*names),
        *tenancy.host_manifests(*names),
    ]
    rows = (row for path in TEMPLATES for row in _roles(path))
    roles = table(("role", "of", "service", "may", "on any resource"), rows)
    rules = table(("kind", "name", "may"), _rules(manifests))
    return f"### Roles in AWS\n\n{roles}\n\n### Rights in the cluster\n\n{rules}\n"


def _roles(path: Path) -> Iterator[tuple[str, ...]]:
    resources = load(path)["Resources"]
    for name, resource in sorted(resources.items()):
        kind, properties = resource["Type"], resource["Properties"]
        if kind == "AWS::IAM::Role":
            own = {"Ref": name}
            apart = [p for r in resources.values() if (p := r["Properties"]).get("RoleName") == own]
            documents = [*_statements(properties), *apart]
            yield from _rows(f"`{name}`", _trusted(properties), documents)
        elif kind == "AWS::IAM::ManagedPolicy":
            users = [
                f"`{role}`"
                for role, each in resources.items()
                if f"'{name}'" in str(each["Properties"].get("ManagedPolicyArns"))
            ]
            of = "all run functions" if len(users) > 2 else " and ".join(users)
            yield from _rows(f"`{name}`", of, [properties["PolicyDocument"]])


def _rows(name: str, trusted: str, documents: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    """A role's permissions, including those that need a condition.

    A service has one row, or several if its actions take more than `_WIDTH` characters.
    """
    restricted: set[str] = set()
    anything: set[str] = set()
    managed: set[str] = set()
    for document in documents:
        for statement in _find(document, "Effect"):
            if statement["Effect"] == "Allow":
                actions = anything if statement["Resource"] == "*" else restricted
                actions |= _actions(statement["Action"])
        managed |= set(re.findall(r":iam::aws:policy/([\w/-]+)", str(document)))
    cells = [
        (service if part == 0 else "", *names)
        for service in sorted({action.split(":")[0] for action in restricted | anything})
        for part, names in enumerate(
            itertools.zip_longest(
                _names(restricted, service), _names(anything, service), fillvalue=""
            )
        )
    ]
    if managed:
        policies = ", ".join(f"`{policy.split('/')[-1]}`" for policy in sorted(managed))
        cells.append(("AWS's policies", policies, ""))
    for place, row in enumerate(cells):
        yield (*((name, trusted) if place == 0 else ("", "")), *row)


def _statements(properties: Json) -> list[Any]:
    return [properties.get("Policies", []), properties.get("ManagedPolicyArns", [])]


def _trusted(properties: Json) -> str:
    (statement,) = properties["AssumeRolePolicyDocument"]["Statement"]
    return re.sub(r"\W.*", "", _text(statement["Principal"]["Service"]))


def _text(value: Any) -> str:
    return str(value["Fn::Sub"]) if isinstance(value, Mapping) else str(value)


def _find(value: Any, key: str) -> Iterator[Json]:
    """All mappings with a key, also inside the template's conditions."""
    if isinstance(value, Mapping):
        if key in value:
            yield value
        else:
            for each in value.values():
                yield from _find(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _find(each, key)


def _names(actions: set[str], service: str) -> list[str]:
    """The actions of a service, at most `_WIDTH` characters in each text."""
    parted = sorted(action.split(":") for action in actions)
    names = ", ".join(f"`{name}`" for owner, name in parted if owner == service)
    return [line.removesuffix(",") for line in textwrap.wrap(names, _WIDTH)]


def _rules(manifests: Sequence[Json]) -> Iterator[tuple[str, ...]]:
    for manifest in manifests:
        metadata = manifest["metadata"]
        name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        for place, right in enumerate(_rights(manifest)):
            yield (*((manifest["kind"], f"`{name}`") if place == 0 else ("", "")), right)


def _rights(manifest: Json) -> Iterator[str]:
    kind = manifest["kind"]
    if kind in ("Role", "ClusterRole"):
        for rule in manifest["rules"]:
            verbs = ", ".join(f"`{verb}`" for verb in rule["verbs"])
            yield f"{verbs} {', '.join(rule['resources'])}"
    elif kind == "Namespace":
        level = manifest["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        yield f"Pod Security `{level}`"
    elif kind == "ValidatingAdmissionPolicy":
        for validation in manifest["spec"]["validations"]:
            yield f"requires: {validation['message'].partition(': ')[2]}"


def _actions(value: Any) -> set[str]:
    """The actions of a statement, including those that depend on a condition."""
    if isinstance(value, str):
        # Skip names of conditions, which have no service prefix.
        return {value} if ":" in value else set()
    return set().union(*map(_actions, value.values() if isinstance(value, Mapping) else value))


def documents() -> dict[Path, str]:
    """The generated page by path."""
    return {PAGE: with_part(PAGE.read_text("utf-8"), "access", render())}
