"""Generate the Grafana dashboard from the CloudWatch dashboard of templates/observability.yaml.

Both have the same panels, titles and metrics. Where the stack's dashboard has names, Grafana's has
variables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.markdown import ROOT
from scripts.parameters import load

TEMPLATE = ROOT / "templates" / "observability.yaml"
DASHBOARD = ROOT / "docs" / "grafana.json"

_SOURCE = {"type": "cloudwatch", "uid": "${datasource}"}
#: What stands for the template's parameters and references.
_VARIABLES = {
    "StackName": "$stack",
    "AWS::Region": "$region",
    "StateMachineArn": "$state_machine",
    "Functions": "$function",
}
#: The unit of a metric, where CloudWatch tells one that Grafana does not.
_UNITS = {"RunSeconds": "s", "ExecutionTime": "ms", "Duration": "ms"}
#: The version of Grafana's dashboard model that is written, that of Grafana 10.0.
_SCHEMA = 38


def documents() -> dict[Path, str]:
    """The file with the dashboard."""
    return {DASHBOARD: json.dumps(dashboard(load(TEMPLATE)), indent=2) + "\n"}


def dashboard(template: Mapping[str, Any]) -> dict[str, Any]:
    """The dashboard for Grafana's import, as JSON.

    Args:
        template: the template with the stack's dashboard.
    """
    body, more = template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    widgets = json.loads(_with_variables(body, more))["widgets"]
    return {
        "uid": "rackrate",
        "title": "rackrate",
        "description": "What the dashboard of a stack shows in CloudWatch.",
        "tags": ["rackrate"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": _SCHEMA,
        "time": {"from": "now-7d", "to": "now"},
        "refresh": "5m",
        "templating": {"list": _variables()},
        "panels": [_panel(number, widget) for number, widget in enumerate(widgets, 1)],
    }


def _with_variables(body: str, more: Mapping[str, Any]) -> str:
    """The dashboard's body with variables for what differs from stack to stack."""
    known = dict(_VARIABLES)
    for name, text in more.items():
        if name not in known:
            known[name] = _replaced(text["Fn::Sub"] if isinstance(text, Mapping) else text, known)
    return _replaced(body, known)


def _replaced(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$\{([\w.:]+)\}", lambda found: known.get(found[1], found[1]), str(text))


def _variables() -> list[dict[str, Any]]:
    return [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "cloudwatch",
            "refresh": 1,
        },
        _variable("region", "Region", {"queryType": "regions"}),
        _variable("stack", "Stack", _values_of("rackrate", "TrialsMeasured", "service")),
        # The names of a stack's state machine and functions begin with the stack's.
        _variable(
            "state_machine",
            "State machine",
            _values_of("AWS/States", "ExecutionTime", "StateMachineArn"),
            regex="/:stateMachine:${stack}-benchmark$/",
            hide=2,
        ),
        _variable(
            "function",
            "Functions",
            _values_of("AWS/Lambda", "Errors", "FunctionName"),
            regex="/^${stack}-B/",
            hide=2,
            multi=True,
            includeAll=True,
            current={"text": ["All"], "value": ["$__all"]},
        ),
    ]


def _variable(name: str, label: str, query: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A variable whose values CloudWatch tells, read again when another one changes."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"refId": "CloudWatchVariableQueryEditor-VariableQuery", **query},
        "refresh": 2,
        "sort": 1,
        **more,
    }


def _values_of(namespace: str, metric: str, dimension: str) -> dict[str, Any]:
    return {
        "queryType": "dimensionValues",
        "region": "$region",
        "namespace": namespace,
        "metricName": metric,
        "dimensionKey": dimension,
        "dimensionFilters": {},
    }


def _panel(number: int, widget: Mapping[str, Any]) -> dict[str, Any]:
    properties = widget["properties"]
    shared = {"id": number, "title": properties["title"], "gridPos": _place(widget)}
    if widget["type"] == "alarm":
        return {**shared, "type": "text", "options": _LINK_TO_ALARMS}
    targets = [_target(place, *each) for place, each in enumerate(_metrics(properties))]
    defaults: dict[str, Any] = {
        # Runs are hours or days apart, so a line alone would show nothing.
        "custom": {"showPoints": "always", "spanNulls": True},
    }
    for target in targets:
        if unit := _UNITS.get(target["metricName"]):
            defaults["unit"] = unit
    if axis := properties.get("yAxis"):
        defaults |= axis["left"]
    for line in properties.get("annotations", {}).get("horizontal", ()):
        defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
        steps = [{"color": "transparent", "value": None}, {"color": "blue", "value": line["value"]}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        **shared,
        "type": "timeseries",
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
        "targets": targets,
    }


_LINK_TO_ALARMS = {
    "mode": "markdown",
    "content": "The [alarms of $stack](https://$region.console.aws.amazon.com/cloudwatch/home"
    "?region=$region#alarmsV2:?search=$stack) are in CloudWatch.",
}


def _place(widget: Mapping[str, Any]) -> dict[str, int]:
    """Both grids have 24 columns, but Grafana's rows are lower."""
    top, height = (round(widget[name] * 4 / 3) for name in ("y", "height"))
    return {"x": widget["x"], "y": top, "w": widget["width"], "h": height}


def _metrics(properties: Mapping[str, Any]) -> Iterator[tuple[Sequence[Any], dict[str, Any]]]:
    """The metrics of a widget, each with its options, which begin with those of the widget."""
    shared = {name: properties[name] for name in ("stat", "period") if name in properties}
    for metric in properties["metrics"]:
        *names, last = metric
        own = last if isinstance(last, Mapping) else None
        yield (metric if own is None else names), {**shared, **(own or {})}


def _target(place: int, names: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """A query for the values of a metric, or with a search expression."""
    namespace, metric, *dimensions = names or ("", "")
    return {
        "refId": chr(ord("A") + place),
        "id": "",
        "datasource": _SOURCE,
        "queryMode": "Metrics",
        "metricQueryType": 0,
        # 0 is the builder, 1 the editor of expressions.
        "metricEditorMode": 0 if names else 1,
        "region": "$region",
        "namespace": namespace,
        "metricName": metric,
        "dimensions": dict(zip(dimensions[::2], dimensions[1::2], strict=True)),
        "matchExact": True,
        "statistic": options.get("stat", "Average"),
        "period": str(options.get("period", "")),
        "label": options.get("label", ""),
        "expression": options.get("expression", ""),
    }
