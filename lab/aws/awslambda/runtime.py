"""Lambda: runs functions in processes of their own, kept warm and limited in time and memory.

Replaces moto's invoke, which without Docker only echoes the event.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moto.awslambda.exceptions import InvalidParameterValueException, UnknownFunctionException
from moto.awslambda.models import LambdaFunction
from moto.awslambda_simple.models import lambda_simple_backends
from moto.logs.models import LogsBackend, logs_backends

from lab.aws import embedded_metrics
from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.authorization.actions import log_needs, network_needs
from lab.aws.authorization.authorizer import AccessDenied, Authorizer
from lab.aws.awslambda.archives import Archives
from lab.aws.awslambda.memory_limits import MemoryLimiter
from lab.aws.awslambda.processes import Processes
from lab.aws.awslambda.worker import Invocation, Outcome, Worker
from lab.aws.iam.identity import SESSION_SECONDS, assume_role

LOG = logging.getLogger(__name__)

#: One line of JSON for each invocation, in the directory of the functions.
INVOCATIONS = "invocations.jsonl"

_IDLE_SECONDS = 300.0
# As many as a run has functions, and as many again less a few, for runs of two stacks at once. One
# that was forked has 60 MB of its own; a cold start costs a third of a second of a core.
_MAX_IDLE = 28
# Workers hold credentials, so they end well before these expire.
_RECYCLE_SECONDS = SESSION_SECONDS - 900 - 60
# Lambda retries a failed asynchronous invocation after one and two minutes. The lab keeps the
# number of retries and shortens the pauses, so that nobody has to wait that long.
_EVENT_RETRY_SECONDS = (1.0, 2.0)

Watcher = Callable[[Worker, Invocation], None]


@dataclass
class EventInvocation:
    """An asynchronous invocation; `error` holds the last failure's payload once it has ended."""

    ended: threading.Event = field(default_factory=threading.Event)
    error: str | None = None


class LambdaRuntime:
    """The workers of all functions."""

    def __init__(
        self,
        *,
        state_directory: Path,
        endpoint_url: str,
        archives: Archives,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._directory = state_directory
        self._endpoint_url = endpoint_url
        self._archives = archives
        self._idle: dict[str, list[Worker]] = {}
        self._workers: set[Worker] = set()
        self._lock = threading.Lock()
        self._log_file_lock = threading.Lock()
        self._stopped = threading.Event()
        self._watchers: list[Watcher] = []
        self._limiter = MemoryLimiter()
        self._processes = Processes(archives.runtime_client)
        for name in ("tmp", "logs"):
            (state_directory / name).mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._reap, name="lambda-reaper", daemon=True).start()

    # -- invoking

    def invoke(
        self, function: LambdaFunction, payload: bytes, *, client_context: str = ""
    ) -> Outcome:
        """Run a function and wait for its result."""
        worker = self._take(function)
        invocation = Invocation(
            payload=payload or b"{}",
            function_arn=function.function_arn,
            timeout_seconds=float(function.timeout),
            client_context=client_context,
        )
        for watcher in self._watchers:
            watcher(worker, invocation)
        outcome = worker.run(invocation)
        self._record(worker.function_name, invocation, outcome)
        self._give_back(worker, _fingerprint(function))
        return outcome

    def _record(self, name: str, invocation: Invocation, outcome: Outcome) -> None:
        """Write down what an invocation took, for those who measure the functions."""
        line = {
            "function": name,
            "ended_at": time.time(),
            "seconds": outcome.seconds,
            "processor_seconds": outcome.processor_seconds,
            "peak_bytes": outcome.peak_bytes,
            "event_bytes": len(invocation.payload),
            "answer_bytes": len(outcome.payload),
            "failed": outcome.failed,
        }
        with self._log_file_lock, (self._directory / INVOCATIONS).open("a") as file:
            file.write(json.dumps(line) + "\n")

    @contextlib.contextmanager
    def watched_by(self, watcher: Watcher) -> Iterator[None]:
        """Tell the watcher of each invocation that begins, before its worker gets it."""
        self._watchers = [*self._watchers, watcher]
        try:
            yield
        finally:
            self._watchers = [each for each in self._watchers if each is not watcher]

    def invoke_event(self, function_name: str, payload: bytes) -> EventInvocation:
        """Run a function in the background, again when it fails, as Lambda's event queue does.

        Raises moto's unknown-function error if there is none of that name or ARN.
        """
        function = self._function(function_name)
        invocation = EventInvocation()
        attempts: tuple[float, ...] = _EVENT_RETRY_SECONDS
        for config in function.event_invoke_config:
            retries = config.config.get("MaximumRetryAttempts")
            if retries is not None:
                attempts = attempts[: int(retries)]

        def work() -> None:
            for pause in (0.0, *attempts):
                if self._stopped.wait(pause):
                    break
                try:
                    outcome = self.invoke(self._function(function_name), payload)
                except Exception as error:
                    LOG.exception("event for %s", function_name)
                    invocation.error = str(error)
                    continue
                invocation.error = outcome.payload.decode() if outcome.failed else None
                if not outcome.failed:
                    break
            invocation.ended.set()

        threading.Thread(target=work, name="lambda-event", daemon=True).start()
        return invocation

    def check_network(self, role: str, spec: Mapping[str, Any]) -> None:
        """Refuse a VPC for a role that may not create network interfaces. Raises Lambda's error."""
        if not (spec.get("VpcConfig") or {}).get("SubnetIds"):
            return
        for need in network_needs():
            try:
                self._authorizer.require(role, [need], {})
            except AccessDenied as denied:
                raise InvalidParameterValueException(
                    "The provided execution role does not have permissions to call"
                    f" {need[0].partition(':')[2]} on EC2"
                ) from denied

    def _function(self, name_or_arn: str) -> LambdaFunction:
        backend = lambda_simple_backends[ACCOUNT_ID][REGION]
        return backend.get_function(name_or_arn)

    # -- workers

    def _take(self, function: LambdaFunction) -> Worker:
        key = _fingerprint(function)
        with self._lock:
            idle = self._idle.get(key, [])
            while idle:
                worker = idle.pop()
                if worker.usable and time.monotonic() - worker.started_at < _RECYCLE_SECONDS:
                    return worker
                worker.stop()
                self._workers.discard(worker)
        worker = self._start(function)
        with self._lock:
            self._workers.add(worker)
            stopped = self._stopped.is_set()
        if stopped:
            worker.stop()
        return worker

    def _give_back(self, worker: Worker, key: str) -> None:
        with self._lock:
            if not worker.usable or self._stopped.is_set():
                self._workers.discard(worker)
                worker.stop()
                return
            self._idle.setdefault(key, []).append(worker)
            idle = sorted(
                (w for workers in self._idle.values() for w in workers),
                key=lambda w: w.idle_since,
            )
            for surplus in idle[: max(0, len(idle) - _MAX_IDLE)]:
                self._retire(surplus)

    def _retire(self, worker: Worker) -> None:
        for workers in self._idle.values():
            if worker in workers:
                workers.remove(worker)
        self._workers.discard(worker)
        worker.stop()

    def _reap(self) -> None:
        while not self._stopped.wait(5.0):
            with self._lock:
                now = time.monotonic()
                for workers in list(self._idle.values()):
                    for worker in list(workers):
                        if not worker.usable or now - worker.idle_since > _IDLE_SECONDS:
                            self._retire(worker)

    def forget(self, function_name: str) -> None:
        """End the idle workers of a function that was changed or deleted."""
        with self._lock:
            for workers in list(self._idle.values()):
                for worker in list(workers):
                    if worker.function_name == function_name:
                        self._retire(worker)

    def stop(self) -> None:
        """End every worker."""
        self._stopped.set()
        with self._lock:
            workers = list(self._workers)
            self._workers.clear()
            self._idle.clear()
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(5.0)
        self._processes.stop()

    def _start(self, function: LambdaFunction) -> Worker:
        name = function.function_name
        credentials = assume_role(function.role, name)
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "AWS_ENDPOINT_URL": self._endpoint_url,
            **{key: str(value) for key, value in function.environment_vars.items()},
            "_HANDLER": str(function.handler),
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": function.logs_group_name,
            **_log_settings(getattr(function, "logging_config", {})),
            "AWS_ACCESS_KEY_ID": credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "AWS_SESSION_TOKEN": credentials.session_token or "",
            "LAMBDA_RUNTIME_DIR": str(self._archives.runtime_client),
        }
        return Worker(
            function_name=name,
            start=lambda more: self._processes.start(
                str(function.handler),
                self._archives.unzip(function.code_digest),
                [self._archives.layer(layer["Arn"]) for layer in function.layers],
                {**environment, **more},
            ),
            memory_mb=int(function.memory_size),
            temporary=self._directory / "tmp" / f"{name}-{os.urandom(6).hex()}",
            limiter=self._limiter,
            log_stream_prefix=("" if function.logs_group_name == f"/aws/lambda/{name}" else name),
            write_log=lambda stream, lines: self._log(
                name, function.role, function.logs_group_name, stream, lines
            ),
        )

    # -- logs

    def _log(self, name: str, role: str, group: str, stream: str, lines: list[str]) -> None:
        with self._log_file_lock, (self._directory / "logs" / f"{name}.log").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        try:
            self._function(name)
        except UnknownFunctionException:
            return  # it was deleted, and its role may be deleted too
        try:
            self._authorizer.require(role, log_needs(group, stream), {})
        except AccessDenied as denied:
            # As on AWS, a function whose role may not write its log runs without one.
            LOG.warning("log of %s: %s", name, denied)
            return
        now = int(time.time() * 1000)
        embedded_metrics.publish(lines)
        logs: LogsBackend = logs_backends[ACCOUNT_ID][REGION]
        with self._log_file_lock, contextlib.suppress(Exception):
            if group not in logs.groups:
                logs.create_log_group(group, {})
            if stream not in logs.groups[group].streams:
                logs.create_log_stream(group, stream)
        try:
            logs.put_log_events(
                group, stream, [{"timestamp": now, "message": line} for line in lines if line]
            )
        except Exception as error:  # a log that cannot be kept must not fail the function
            LOG.warning("log of %s: %s", name, error)


def _log_settings(config: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that tell the runtime how to log."""
    if config.get("LogFormat") != "JSON":
        return {}
    return {
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_LAMBDA_LOG_LEVEL": config.get("ApplicationLogLevel", "INFO"),
    }


def _fingerprint(function: LambdaFunction) -> str:
    """A text that changes whenever the function needs new workers."""
    return json.dumps(
        [
            function.function_arn,
            function.code_digest,
            function.layers,
            function.handler,
            function.role,
            function.memory_size,
            function.environment_vars,
            function.run_time,
            function.logs_group_name,
            getattr(function, "logging_config", {}),
        ],
        sort_keys=True,
        default=str,
    )
