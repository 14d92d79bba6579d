"""The dashboard and the alarms use metrics that the functions and AWS write."""

from __future__ import annotations

import ast
import json
import re

import pytest

from rackrate.stack.preflight import STACK_NAME_CHARACTERS
from tests import ROOT
from tests.templates.cloudformation import load, resolver, walk

TEMPLATE = load(ROOT / "templates" / "observability.yaml")
RESOURCES = TEMPLATE["Resources"]
ALARMS = {n: r["Properties"] for n, r in RESOURCES.items() if r["Type"] == "AWS::CloudWatch::Alarm"}
#: The benchmark's functions, by their names in its template.
LOGICAL_IDS = [
    name["Ref"]
    for name in load(ROOT / "templates" / "benchmark.yaml")["Outputs"]["FunctionNames"]["Value"][
        "Fn::Join"
    ][1]
]


def values_of(stack_name):
    """What the template's parameters and references are for a stack of this name."""
    return {
        "StackName": stack_name,
        "StateMachineArn": (
            f"arn:aws:states:us-east-1:123456789012:stateMachine:{stack_name}-benchmark"
        ),
        "FunctionNames": [function_name(stack_name, name) for name in LOGICAL_IDS],
        "TeardownFunctionName": function_name(stack_name, "TeardownFunction"),
        "RestoreFunctionName": function_name(stack_name, "RestoreFunction"),
        "AWS::Region": "us-east-1",
        **{
            f"{name}.Arn": f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{name}"
            for name in ALARMS
        },
    }


def function_name(stack_name, logical_id):
    """A name that CloudFormation gives a function: it shortens the stack's to 64 characters."""
    end = f"-{logical_id}-1A2B3C4D5E6F"
    return f"{stack_name}-Benchmark-1A2B3C4D5E6F"[: 64 - len(end)] + end


def resolve(value, values):
    """Resolve the functions that this template uses, as CloudFormation does."""
    match value:
        case {"Fn::Sub": [text, more]}:
            values = {**values, **{name: resolve(entry, values) for name, entry in more.items()}}
        case {"Fn::Sub": text}:
            pass
        case {"Fn::Join": [separator, {"Ref": name}]}:
            return separator.join(values[name])
        case {"Ref": name}:
            return values[name]
        case _:
            return value
    return re.sub(r"\$\{([\w.:]+)\}", lambda match: values[match[1]], text)


def widgets_of(stack_name):
    """The widgets of the dashboard of a stack with this name."""
    body = resolve(RESOURCES["Dashboard"]["Properties"]["DashboardBody"], values_of(stack_name))
    return json.loads(body)["widgets"]


def metrics_of(widgets):
    """The widgets' metrics, with what "." stands for: the entry in the same place above."""
    metrics = []
    for widget in widgets:
        above = []
        for metric in widget["properties"].get("metrics", []):
            above = [above[place] if entry == "." else entry for place, entry in enumerate(metric)]
            metrics.append(above)
    return metrics


def queries_of(metrics):
    """The search expressions among the metrics."""
    return [metric[0]["expression"] for metric in metrics if isinstance(metric[0], dict)]


VALUES = values_of("house")
WIDGETS = widgets_of("house")
METRICS = metrics_of(WIDGETS)
VERDICTS = queries_of(METRICS)


#: Calls of the handlers' code that write metrics.
CALLS = [
    node
    for path in (ROOT / "functions" / "handlers").glob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "put_metrics"
]
EMITTED = {value.arg for call in CALLS for value in call.keywords}


def test_every_metric_the_functions_write_is_on_the_dashboard_and_no_other():
    shown = {metric[1] for metric in METRICS if metric[0] == "rackrate"}
    shown |= {
        name
        for query in VERDICTS
        for name in re.findall(r'"((?:Verdict|Campaign|RunFill)\w*)"', query)
    }
    assert shown == EMITTED
    assert len(shown) == 22


def test_metrics_are_of_this_stack_and_this_state_machine():
    for namespace, *rest in (m for m in METRICS if isinstance(m[0], str)):
        expected = {
            "rackrate": ["service", "house"],
            "AWS/States": ["StateMachineArn", VALUES["StateMachineArn"]],
        }.get(namespace)
        assert rest[1:3] == expected or namespace == "AWS/Lambda"


def test_every_function_has_its_errors_durations_and_throttles_on_the_dashboard():
    shown = [(m[1], m[3]) for m in METRICS if m[0] == "AWS/Lambda" and m[2] == "FunctionName"]
    names = VALUES["FunctionNames"]
    assert shown == [
        (metric, name) for metric in ("Errors", "Duration", "Throttles") for name in names
    ]


@pytest.mark.parametrize("stack_name", ["house", "h" * STACK_NAME_CHARACTERS])
def test_search_expressions_are_as_short_as_cloudwatch_takes_them(stack_name):
    """The limit is that of the query in the expression (CloudWatch user guide, "CloudWatch search
    expression syntax", search expression limits)."""
    queries = queries_of(metrics_of(widgets_of(stack_name)))
    assert queries
    for query in queries:
        inner = re.fullmatch(r"SEARCH\('(.*)', '\w+', \d+\)", query)[1]
        assert len(inner) <= 1024, query


def test_verdicts_are_found_by_exactly_the_dimensions_they_are_written_with():
    expected = {
        value.arg: {"service", *(name.value for name in each.keys)}
        for call in CALLS
        for each in call.args
        if isinstance(each, ast.Dict)
        for value in call.keywords
    }
    for query in VERDICTS:
        match = re.fullmatch(
            r"""SEARCH\('\{rackrate,([\w,]+)\} service="house" MetricName=.*', '\w+', 3600\)""",
            query,
        )
        for name in re.findall(r'"((?:Verdict|Campaign|RunFill)\w*)"', query):
            assert set(match[1].split(",")) == expected[name]
    assert len(VERDICTS) == 5


def test_widgets_do_not_overlap_and_fit_the_grid():
    taken = set()
    for widget in WIDGETS:
        assert widget["x"] + widget["width"] <= 24
        cells = {
            (widget["x"] + x, widget["y"] + y)
            for x in range(widget["width"])
            for y in range(widget["height"])
        }
        assert not cells & taken, widget["properties"]["title"]
        taken |= cells


def test_every_alarm_is_on_the_dashboard():
    (alarms,) = (w["properties"]["alarms"] for w in WIDGETS if w["type"] == "alarm")
    assert {arn.rpartition(":")[2] for arn in alarms} == set(ALARMS)


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_is_quiet_without_data_and_says_what_to_do(name):
    alarm = ALARMS[name]
    assert alarm["TreatMissingData"] == "notBreaching"
    description = resolve(alarm["AlarmDescription"], VALUES)
    longest = resolve(alarm["AlarmDescription"], values_of("h" * STACK_NAME_CHARACTERS))
    assert len(longest) <= 1024, "CloudWatch takes no more"
    assert re.search(r'"(aws|rackrate|kubectl) ', description), "which command to run"
    assert "${" not in description


def test_alarms_watch_metrics_that_someone_writes():
    own = {a["MetricName"] for a in ALARMS.values() if a["Namespace"] == "rackrate"}
    assert own == {"RunsFailed", "OverdueRuns", "CampaignsFailed", "DrawsChanged"} <= EMITTED
    others = [a for a in ALARMS.values() if a["Namespace"] != "rackrate"]
    assert [(a["Namespace"], a["MetricName"]) for a in others] == [("AWS/Lambda", "Errors")] * 2


def test_alarms_go_to_the_topics_that_were_asked_for():
    for alarm in ALARMS.values():
        assert [action["Fn::If"][:2] for action in alarm["AlarmActions"]] == [
            ["HasTopic", {"Ref": "AlarmRecipient"}],
            ["HasEmail", {"Ref": "Topic"}],
        ]


@pytest.mark.parametrize(
    ("recipient", "conditions"),
    [
        ("", set()),
        ("me@example.com", {"HasSubscribers", "HasEmail", "NeedsKey"}),
        ("arn:aws:sns:us-east-1:123456789012:pager", {"HasSubscribers", "HasTopic"}),
    ],
)
def test_a_recipient_is_a_topic_or_an_address(recipient, conditions):
    known = resolver(
        TEMPLATE, {**dict.fromkeys(TEMPLATE["Parameters"], ""), "AlarmRecipient": recipient}
    )
    known.evaluate_conditions()
    assert {name for name, is_true in known.conditions.items() if is_true} == conditions


def test_the_topic_is_encrypted_and_only_alarms_of_this_account_may_publish():
    assert "KmsMasterKeyId" in RESOURCES["Topic"]["Properties"]
    (statement,) = RESOURCES["TopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:SourceAccount": {"Ref": "AWS::AccountId"}
    }
    assert "ArnLike" in statement["Condition"]


def test_whoever_gets_alarms_gets_sentences_from_a_function_that_publishes_nowhere_else():
    function, role = RESOURCES["NotifyFunction"], RESOURCES["NotifyRole"]
    assert function["Condition"] == role["Condition"] == "HasSubscribers"
    assert "VpcConfig" not in function["Properties"], "a VPC may have no way to SNS"
    (policy,) = role["Properties"]["Policies"]
    (publish,) = (
        s for s in policy["PolicyDocument"]["Statement"] if s.get("Action") == "sns:Publish"
    )
    topic = {"Fn::If": ["HasEmail", {"Ref": "Topic"}, {"Ref": "AlarmRecipient"}]}
    assert publish["Resource"] == topic
    assert function["Properties"]["Environment"]["Variables"]["TOPIC_ARN"] == topic


def test_everything_that_mail_needs_is_made_only_for_mail():
    made = {n for n, r in RESOURCES.items() if r["Type"].split("::")[1] in ("SNS", "KMS")}
    assert {n for n in made if RESOURCES[n]["Condition"] in ("HasEmail", "NeedsKey")} == made
    assert {"Fn::GetAtt": ["TopicKey", "Arn"]} in list(walk(RESOURCES["Topic"]))


# -- the same dashboard for Grafana

GRAFANA = json.loads((ROOT / "docs" / "grafana.json").read_text("utf-8"))


def in_grafana(panel):
    """The metrics of a panel of Grafana's dashboard: a metric, its dimension, statistic, label."""
    return {
        target["expression"]
        or (
            target["namespace"],
            target["metricName"],
            *(entry for pair in target["dimensions"].items() for entry in pair),
            target["statistic"],
            target["period"],
            target["label"],
        )
        for target in panel.get("targets", ())
    }


def in_cloudwatch(widget):
    """The same of a widget, with Grafana's variables for what belongs to one stack."""
    names = {
        "house": "$stack",
        VALUES["StateMachineArn"]: "$state_machine",
        **dict.fromkeys(VALUES["FunctionNames"], "$function"),
    }
    properties = widget["properties"]
    searches = set()
    for *metric, last in ([*each, {}] for each in metrics_of([widget])):
        options = next((each for each in metric if isinstance(each, dict)), last)
        if expression := options.get("expression"):
            searches.add(expression.replace("house", "$stack"))
            continue
        namespace, name, dimension, value = metric[:4]
        statistic = options.get("stat", properties.get("stat"))
        period, label = str(properties["period"]), options.get("label", "")
        searches.add((namespace, name, dimension, names[value], statistic, period, label))
    return searches


def test_grafana_shows_the_same_panels_with_the_same_metrics():
    assert [panel["title"] for panel in GRAFANA["panels"]] == [
        widget["properties"]["title"].replace("house", "$stack") for widget in WIDGETS
    ]
    for panel, widget in zip(GRAFANA["panels"], WIDGETS, strict=True):
        assert in_grafana(panel) == in_cloudwatch(widget), panel["title"]
    assert {region for p in GRAFANA["panels"][1:] for region in regions_of(p)} == {"$region"}


def regions_of(panel):
    return {target["region"] for target in panel["targets"]}


def test_grafanas_variables_find_the_state_machine_and_the_functions_of_a_stack():
    variables = {each["name"]: each for each in GRAFANA["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(GRAFANA))) - {"__all"}
    assert used <= set(variables)

    def chosen(name, stack_name, among):
        pattern = variables[name]["regex"].strip("/").replace("${stack}", stack_name)
        every = [among["StateMachineArn"], *among["FunctionNames"]]
        return [each for each in every if re.search(pattern, each)]

    for stack_name in ("house", "h" * 28):
        values = values_of(stack_name)
        assert chosen("state_machine", stack_name, values) == [values["StateMachineArn"]]
        assert chosen("function", stack_name, values) == values["FunctionNames"]
    assert chosen("function", "hous", VALUES) == chosen("state_machine", "hous", VALUES) == []


def test_no_log_has_the_outputs_of_executions_or_the_events_of_functions():
    """Both contain links with which anybody can read a page (docs/security.md)."""
    nodes = [
        node
        for path in (ROOT / "templates").glob("*.yaml")
        for node in walk(load(path))
        if isinstance(node, dict)
    ]
    machines = [node for node in nodes if node.get("Type") == "AWS::Serverless::StateMachine"]
    assert machines
    assert not [m for m in machines if m["Properties"]["Logging"]["IncludeExecutionData"]]
    variables = {name for node in nodes for name in node.get("Variables", ())}
    events = {"POWERTOOLS_LOGGER_LOG_EVENT", "POWERTOOLS_DEV"}
    assert "POWERTOOLS_LOG_LEVEL" in variables and not variables & events
    handlers = [path.read_text() for path in (ROOT / "functions" / "handlers").glob("*.py")]
    assert not [text for text in handlers if "log_event" in text]
