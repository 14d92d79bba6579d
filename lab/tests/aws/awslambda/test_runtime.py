"""Each Lambda function runs in its own processes, as on AWS."""

from __future__ import annotations

import concurrent.futures
import io
import json
import time
import zipfile
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, eventually


@pytest.fixture(params=["new", "forked"])
def files(request: pytest.FixtureRequest) -> dict[str, str]:
    """More files of the archive. A zygote forks the workers of an archive with a large package."""
    return {"pydantic/__init__.py": ""} if request.param == "forked" else {}


def invoke(lab: Lab, name: str, event: Any = None, **more: Any) -> tuple[Any, dict[str, Any]]:
    response = lab.client("lambda").invoke(
        FunctionName=name, Payload=json.dumps(event or {}).encode(), **more
    )
    return json.loads(response["Payload"].read()), response


def test_function_sees_lambdas_environment_and_its_own(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function(
        """
        import os
        def handler(event, context):
            keys = ["AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_REGION",
                    "LAMBDA_TASK_ROOT", "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_ENDPOINT_URL", "COLOUR"]
            return {**{k: os.environ[k] for k in keys}, "event": event,
                    "arn": context.invoked_function_arn,
                    "left": context.get_remaining_time_in_millis()}
        """,
        files,
        Environment={"Variables": {"COLOUR": "green"}},
    )
    result, _ = invoke(lab, name, {"a": 1})
    assert result["AWS_LAMBDA_FUNCTION_NAME"] == name
    assert result["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "256"
    assert result["AWS_LAMBDA_LOG_GROUP_NAME"] == f"/aws/lambda/{name}"
    assert result["AWS_ENDPOINT_URL"] == lab.region.endpoint_url
    assert result["COLOUR"] == "green"
    assert result["event"] == {"a": 1}
    assert result["arn"].endswith(f":function:{name}")
    assert 5_000 < result["left"] <= 10_000


def test_function_has_temporary_credentials_of_its_role(lab: Lab) -> None:
    role = lab.role()
    name = lab.function(
        """
        import os
        def handler(event, context):
            return {"key": os.environ["AWS_ACCESS_KEY_ID"],
                    "token": os.environ["AWS_SESSION_TOKEN"],
                    "secret": os.environ["AWS_SECRET_ACCESS_KEY"]}
        """,
        Role=role,
    )
    keys, _ = invoke(lab, name)
    import boto3

    sts = boto3.client(
        "sts",
        endpoint_url=lab.region.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=keys["key"],
        aws_secret_access_key=keys["secret"],
        aws_session_token=keys["token"],
    )
    arn = sts.get_caller_identity()["Arn"]
    assert arn == f"arn:aws:sts::123456789012:assumed-role/{role.rsplit('/', 1)[1]}/{name}"


def test_undeclared_dependency_fails_as_on_aws(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function("import yaml\ndef handler(event, context): return 1\n", files)
    error, response = invoke(lab, name)
    assert response["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'yaml'" in error["errorMessage"]


def test_exception_has_lambdas_form(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function(
        """
        class InvalidPlan(Exception): pass
        def handler(event, context):
            raise InvalidPlan("blocks: must be positive")
        """,
        files,
    )
    error, response = invoke(lab, name)
    assert response["FunctionError"] == "Unhandled"
    assert error["errorType"] == "InvalidPlan"
    assert error["errorMessage"] == "blocks: must be positive"
    assert "raise InvalidPlan" in error["stackTrace"][-1]


def test_timeout_is_enforced_and_the_next_invocation_works(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function(
        """
        import time
        def handler(event, context):
            time.sleep(event.get("seconds", 0)); return "done"
        """,
        files,
        Timeout=3,
    )
    started = time.monotonic()
    error, response = invoke(lab, name, {"seconds": 30})
    assert time.monotonic() - started < 30
    assert response["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Sandbox.Timedout"
    assert error["errorMessage"].endswith("Task timed out after 3.00 seconds")
    assert invoke(lab, name)[0] == "done"


def test_crash_is_an_exit_error(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function("import os\ndef handler(event, context): os._exit(3)\n", files)
    error, _ = invoke(lab, name)
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("Runtime exited with error: exit status 3")


def test_memory_limit_kills_a_greedy_function(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function(
        """
        import time
        def handler(event, context):
            held = []
            for _ in range(400):
                held.append(bytearray(b"x" * 2**20))
                time.sleep(0.002)
            return len(held)
        """,
        files,
        MemorySize=128,
    )
    error, _ = invoke(lab, name)
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("signal: killed")


def test_an_archive_that_unpacks_to_more_than_lambda_takes_is_refused(lab: Lab) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("index.py", "def handler(event, context): return 1\n")
        with target.open("large", "w") as entry:
            for _ in range(250):
                entry.write(bytes(2**20))
    client = lab.client("lambda")
    with pytest.raises(ClientError, match="Unzipped size must be smaller than 262144000 bytes"):
        client.create_function(
            FunctionName="large",
            Runtime="python3.13",
            Handler="index.handler",
            Role=lab.role(),
            Code={"ZipFile": content.getvalue()},
        )
    names = [function["FunctionName"] for function in client.list_functions()["Functions"]]
    assert "large" not in names


def layer(lab: Lab, name: str, **files: str) -> str:
    """Publish a layer with these modules, and return the ARN of its version."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for module, text in files.items():
            archive.writestr(f"python/{module}.py", text)
    published = lab.client("lambda").publish_layer_version(
        LayerName=name, Content={"ZipFile": content.getvalue()}
    )
    return str(published["LayerVersionArn"])


def test_a_function_imports_from_its_layers_and_keeps_those_that_are_deleted(
    lab: Lab, files: dict[str, str]
) -> None:
    """The function's own modules come first, and those of a later layer before an earlier one's."""
    first = layer(lab, "first", one="name = 'first'", two="name = 'first'", own="name = 'first'")
    second = layer(lab, "second", two="name = 'second'")
    name = lab.function(
        """
        import one, own, two
        def handler(event, context):
            return [one.name, two.name, own.name]
        """,
        {**files, "own.py": "name = 'the function'"},
        Layers=[first, second],
    )
    lab.client("lambda").delete_layer_version(LayerName="first", VersionNumber=1)
    assert invoke(lab, name)[0] == ["first", "second", "the function"]
    lab.client("lambda").update_function_configuration(FunctionName=name, Layers=[second])
    error, _ = invoke(lab, name)
    assert "No module named 'one'" in error["errorMessage"]


def test_invocations_at_once_run_in_processes_of_their_own_that_are_reused(lab: Lab) -> None:
    name = lab.function(
        """
        import os, time
        def handler(event, context):
            time.sleep(event["seconds"]); return os.getpid()
        """
    )
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pids = {r[0] for r in pool.map(lambda _: invoke(lab, name, {"seconds": 1.0}), range(2))}
    assert len(pids) == 2
    assert invoke(lab, name, {"seconds": 0})[0] in pids


def test_logs_have_start_output_end_and_report(lab: Lab, files: dict[str, str]) -> None:
    name = lab.function("def handler(event, context):\n    print('said', event['x'])\n", files)
    invoke(lab, name, {"x": 7})
    logs = lab.client("logs")
    group = f"/aws/lambda/{name}"
    events = eventually(
        lambda: logs.filter_log_events(logGroupName=group)["events"],
        lambda logged: any("REPORT" in event["message"] for event in logged),
    )
    messages = [event["message"] for event in events]
    kinds = [message.split()[0] for message in messages]
    assert kinds == ["START", "said", "END", "REPORT"]
    assert "Memory Size: 256 MB" in messages[-1]
    assert "said 7" in lab.log(name)


def test_failed_event_is_retried(lab: Lab) -> None:
    name = lab.function(
        """
        import os, pathlib
        def handler(event, context):
            mark = pathlib.Path(os.environ["LAMBDA_TASK_ROOT"]) / "attempts"
            count = int(mark.read_text()) + 1 if mark.exists() else 1
            mark.write_text(str(count))
            print("attempt", count)
            if count < 2: raise RuntimeError("again")
        """
    )
    response = lab.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
    assert response["StatusCode"] == 202
    eventually(lambda: lab.log(name), lambda text: "attempt 2" in text)


def test_function_logs_where_its_configuration_says(lab: Lab) -> None:
    logs = lab.client("logs")
    group = lab.bucket()
    logs.create_log_group(logGroupName=group)
    name = lab.function(
        """
        import os
        def handler(event, context):
            print("here"); return os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        """,
        LoggingConfig={"LogGroup": group},
    )
    configuration = lab.client("lambda").get_function_configuration(FunctionName=name)
    assert configuration["LoggingConfig"] == {"LogFormat": "Text", "LogGroup": group}
    assert invoke(lab, name)[0] == group
    events = eventually(
        lambda: logs.filter_log_events(logGroupName=group)["events"],
        lambda logged: any("REPORT" in event["message"] for event in logged),
    )
    assert "here" in [event["message"] for event in events]
    assert f"/{name}[$LATEST]" in events[0]["logStreamName"]


def test_the_last_lines_of_a_deleted_function_ask_for_no_permission(lab: Lab) -> None:
    role = lab.role()
    name = lab.function(
        """
        import pathlib, time
        def handler(event, context):
            pathlib.Path(event["started"]).touch()
            while not pathlib.Path(event["go"]).exists(): time.sleep(0.01)
        """,
        Role=role,
    )
    started, go = (lab.state_directory / f"{name}.{step}" for step in ("started", "go"))
    event = json.dumps({"started": str(started), "go": str(go)}).encode()
    lab.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=event)
    eventually(started.exists, bool)
    lab.client("lambda").delete_function(FunctionName=name)
    lab.client("iam").delete_role_policy(RoleName=role.rsplit("/", 1)[-1], PolicyName="test")
    go.touch()
    eventually(lambda: lab.log(name), lambda text: "REPORT" in text)
    assert [call for call in lab.calls(role) if not call.allowed] == []
