"""The dashboard and the alarms use metrics that the functions and AWS write."""

from __future__ import annotations

import ast
import json
import re

import pytest

from tests.templates.cloudformation import ROOT, load, walk

TEMPLATE = load(ROOT / "templates" / "observability.yaml")
RESOURCES = TEMPLATE["Resources"]
ALARMS = {n: r["Properties"] for n, r in RESOURCES.items() if r["Type"] == "AWS::CloudWatch::Alarm"}
VALUES = {
    "StackName": "house",
    "StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:house-benchmark",
    "TeardownFunctionName": "house-TeardownFunction-1",
    "RestoreFunctionName": "house-RestoreFunction-1",
    "AWS::Region": "us-east-1",
    **{f"{name}.Arn": f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{name}" for name in ALARMS},
}
FUNCTIONS = [f"house-Benchmark-1A2B3C4D5E6F-{n:02}Function-1A2B3C4D5E6F" for n in range(11)]


def resolve(value):
    """Resolve the functions that this template uses, as CloudFormation does."""
    if isinstance(value, list):
        return [resolve(entry) for entry in value]
    match value:
        case {"Fn::Sub": [text, more]}:
            values = {**VALUES, **{name: resolve(entry) for name, entry in more.items()}}
        case {"Fn::Sub": text}:
            values = VALUES
        case {"Fn::Join": [separator, {"Ref": "FunctionNames"}]}:
            return separator.join(FUNCTIONS)
        case {"Ref": name}:
            return VALUES[name]
        case _:
            return value
    return re.sub(r"\$\{([\w.:]+)\}", lambda found: values[found[1]], text)


DASHBOARD = json.loads(resolve(RESOURCES["Dashboard"]["Properties"]["DashboardBody"]))
WIDGETS = DASHBOARD["widgets"]
METRICS = [m for w in WIDGETS for m in w["properties"].get("metrics", [])]
QUERIES = [m[0]["expression"] for m in METRICS if isinstance(m[0], dict)]
VERDICTS = [query for query in QUERIES if "{rackrate," in query]


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
        name for query in VERDICTS for name in re.findall(r'"((?:Verdict|Campaign)\w*)"', query)
    }
    assert shown == EMITTED
    assert len(shown) == 16


def test_metrics_are_of_this_stack_and_this_state_machine():
    for namespace, *rest in (m for m in METRICS if isinstance(m[0], str)):
        wanted = {
            "rackrate": ["service", "house"],
            "AWS/States": ["StateMachineArn", VALUES["StateMachineArn"]],
        }[namespace]
        assert rest[1:3] == wanted


def test_functions_are_found_by_their_names_in_a_query_cloudwatch_takes():
    queries = [query for query in QUERIES if query not in VERDICTS]
    assert len(queries) == 3
    for query in queries:
        inner = re.fullmatch(r"SEARCH\('(.*)', '\w+', 300\)", query)[1]
        assert len(inner) <= 1024, "the limit of CloudWatch's search expressions"
        names = "|".join(re.escape(name) for name in FUNCTIONS)
        assert len(re.findall(f'"({names})"', inner)) == len(FUNCTIONS)


def test_verdicts_are_found_by_exactly_the_dimensions_they_are_written_with():
    written = [each for call in CALLS for each in call.args if isinstance(each, ast.Dict)]
    (names,) = {tuple(name.value for name in each.keys) for each in written}
    wanted = {"service", *names}
    for query in VERDICTS:
        found = re.fullmatch(
            r"""SEARCH\('\{rackrate,([\w,]+)\} service="house" MetricName=.*', '\w+', 3600\)""",
            query,
        )
        assert set(found[1].split(",")) == wanted
    assert len(VERDICTS) == 3


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
    description = resolve(alarm["AlarmDescription"])
    assert len(description) <= 1024, "CloudWatch takes no more"
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
            ["HasTopic", {"Ref": "AlarmTopicArn"}],
            ["HasEmail", {"Ref": "Topic"}],
        ]


def test_the_topic_is_encrypted_and_only_alarms_of_this_account_may_publish():
    assert "KmsMasterKeyId" in RESOURCES["Topic"]["Properties"]
    (statement,) = RESOURCES["TopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:SourceAccount": {"Ref": "AWS::AccountId"}
    }
    assert "ArnLike" in statement["Condition"]


def test_everything_that_mail_needs_is_made_only_for_mail():
    made = {n for n, r in RESOURCES.items() if r["Type"].split("::")[1] in ("SNS", "KMS")}
    assert {n for n in made if RESOURCES[n]["Condition"] in ("HasEmail", "NeedsKey")} == made
    assert {"Fn::GetAtt": ["TopicKey", "Arn"]} in list(walk(RESOURCES["Topic"]))
