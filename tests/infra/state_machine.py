"""The state machine of `infra/batch.yaml`, run on moto's Step Functions and S3 with the real batch handler.

`awslambdaric` calls the handler, as on Lambda. Faults happen where they would in AWS: at an invocation, or at a
request of the worker to S3.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
import time
import zipfile
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import boto3
import botocore.endpoint
import pytest
from awslambdaric.bootstrap import StandardLogSink, handle_event_request  # type: ignore[import-untyped]
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller  # type: ignore[import-untyped]
from botocore.retries.bucket import TokenBucket
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.botocore_stubber import BotocoreStubber

from tests.support.functions import load_function, same_logging

from .stack import ACCOUNT, REGION, RUNTIME, stack
from .step_functions import as_in_aws

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from botocore.awsrequest import AWSPreparedRequest
    from moto.core.common_types import TYPE_RESPONSE

    Handler = Callable[[Any, Any], Any]
    Event = dict[str, Any]
    Respond = Callable[[], TYPE_RESPONSE | None]

__all__ = [
    "BUCKET",
    "FUNCTION",
    "INPUT",
    "PARTS_AT_ONCE",
    "Account",
    "Death",
    "Deployed",
    "Run",
    "aws",
    "deployed",
    "load_handler",
    "slow_down",
]

BUCKET: Final = "batches"
INPUT: Final = "input/requests.jsonl"
FUNCTION: Final = "derender-BatchFunction-1A2B3C"
ALIAS: Final = "live"
PARTS_AT_ONCE: Final = 3
SESSION: Final = boto3.Session("testing", "testing", region_name=REGION)
"""Session of all clients, which reads the descriptions of the services once."""
INVOCATION: Final = timedelta(minutes=15)
"""Time that the function has for an invocation."""
EXECUTION_SECONDS: Final = 300
"""Time after which an execution counts as hanging."""


class Deployed(NamedTuple):
    """The state machine and its role, as CloudFormation makes them."""

    definition: str
    properties: dict[str, Any]
    statements: list[dict[str, Any]]
    """The statements of the role's policy."""
    log_group: dict[str, Any]


def deployed(**parameters: str) -> Deployed:
    """Return what CloudFormation makes with these parameters."""
    made = stack(BatchBucket=BUCKET, BatchConcurrency=str(PARTS_AT_ONCE), **parameters).nested["BatchStack"]
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{FUNCTION}"
    text = json.dumps(made.resources).replace("${BatchFunction.Arn}", arn).replace("${BatchFunction}", FUNCTION)
    resources = {name: each["Properties"] for name, each in json.loads(text).items()}
    (policy,) = resources["StateMachineRole"]["Policies"]
    machine = resources["StateMachine"]
    return Deployed(
        machine["DefinitionString"],
        machine,
        policy["PolicyDocument"]["Statement"],
        resources["StateMachineLogGroup"],
    )


class Death(BaseException):
    """The end of the worker's process, which nothing in it catches.

    Args:
        report: What Lambda reports.
    """

    def __init__(self, report: Mapping[str, str]) -> None:
        super().__init__(report)
        self.report = report


class Call(NamedTuple):
    """An invocation of the function."""

    event: Event
    version: str
    answer: Any
    """The returned value or the reported error."""


class Run(NamedTuple):
    """A finished execution."""

    status: str
    output: Any
    error: str | None
    cause: str | None
    failed_parts: list[dict[str, Any]]
    """Error and cause of each failed execution of the Map Run."""
    part_outputs: list[Any]
    """Output of each other execution."""
    waits: list[float]
    """Seconds before each retry."""
    objects: dict[str, bytes]
    """Written objects: key → content."""
    history: str
    """Events of the execution and of those of the Map Run, as JSON."""


class Account:
    """An AWS account with a bucket, the function, and the state machine.

    Attributes:
        handler: The handler of the function.
        on_invoke: Called before each invocation, with its event and the number of earlier ones of its step.
        on_request: Called for each request of a worker to S3 with a function that answers it; responds.
        time: Event → time that the invocation has.
        calls: The finished invocations.

    Args:
        stack: The state machine to deploy.
        handler: The handler of the function.
        patch: Ends with the account.
    """

    def __init__(self, stack: Deployed, handler: Handler, patch: pytest.MonkeyPatch) -> None:
        self.handler = handler
        self.on_invoke: Callable[[Event, int], None] = lambda _event, _number: None
        self.on_request: Callable[[AWSPreparedRequest, Respond], TYPE_RESPONSE | None] = (
            lambda _request, respond: respond()
        )
        self.time: Callable[[Event], timedelta] = lambda _event: INVOCATION
        self.calls: list[Call] = []
        self._started: Counter[str] = Counter()
        self._process = threading.Lock()
        self._works = False
        self._stack = stack
        self._states = SESSION.client("stepfunctions")
        self._s3 = SESSION.client("s3")
        self._s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        role = SESSION.client("iam").create_role(RoleName="batch", AssumeRolePolicyDocument="{}")
        self._role = role["Role"]["Arn"]
        self._lambda = SESSION.client("lambda")
        self._lambda.create_function(
            FunctionName=FUNCTION,
            Runtime=RUNTIME,
            Role=self._role,
            Handler="batch.handler",
            Code={"ZipFile": _archive("first")},
            Publish=True,
        )
        self._lambda.create_alias(FunctionName=FUNCTION, Name=ALIAS, FunctionVersion="1")
        self._observed = as_in_aws(patch)
        self._stand_for_lambda(patch)
        _without_waiting(patch)

    def put(self, key: str, body: bytes) -> None:
        """Store an object."""
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def release(self) -> None:
        """Deploy another version of the function and point the alias to it."""
        self._lambda.update_function_code(FunctionName=FUNCTION, ZipFile=_archive("second"), Publish=True)
        self._lambda.update_alias(FunctionName=FUNCTION, Name=ALIAS, FunctionVersion="2")

    def run(self, key: str = INPUT) -> Run:
        """Execute the state machine to its end."""
        request = {"input": f"s3://{BUCKET}/{key}", "output": f"s3://{BUCKET}/output/"}
        return self._executed("derender-batch", self._stack.definition, request)

    def redrive(self) -> Run:
        """Execute the state machine from its Map on, as AWS does after the Map has failed.

        AWS leaves finished parts alone. Here they run again.
        """
        definition = {**json.loads(self._stack.definition), "StartAt": "Derender"}
        entered = next(
            event["stateEnteredEventDetails"]["input"]
            for event in json.loads(self._history)
            if event.get("stateEnteredEventDetails", {}).get("name") == "Derender"
        )
        self._observed.failed_parts.clear()
        return self._executed("redriven", json.dumps(definition), json.loads(entered))

    def _executed(self, machine: str, definition: str, request: object) -> Run:
        made = self._states.create_state_machine(name=machine, definition=definition, roleArn=self._role)
        arn = made["stateMachineArn"]
        execution = self._states.start_execution(stateMachineArn=arn, name="job-1", input=json.dumps(request))[
            "executionArn"
        ]
        deadline = time.monotonic() + EXECUTION_SECONDS
        while (state := self._states.describe_execution(executionArn=execution))["status"] == "RUNNING":
            assert time.monotonic() < deadline, "the execution does not end"
            time.sleep(0.01)
        events = self._states.get_execution_history(executionArn=execution)["events"]
        self._history = json.dumps([*events, *self._observed.events], default=str)
        return Run(
            state["status"],
            json.loads(state["output"]) if "output" in state else None,
            state.get("error"),
            state.get("cause"),
            [*self._observed.failed_parts],
            [*self._observed.outputs],
            [*self._observed.waits],
            dict(self._objects("output/")),
            self._history,
        )

    def _objects(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            for each in page.get("Contents", []):
                yield each["Key"], self._s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()

    def _stand_for_lambda(self, patch: pytest.MonkeyPatch) -> None:
        def invoke(backend: LambdaSimpleBackend, *arguments: Any) -> bytes:
            return self._invoke(backend, *arguments)

        patch.setattr(LambdaSimpleBackend, "invoke", invoke)
        process = BotocoreStubber.process_request

        def process_request(stubber: BotocoreStubber, request: AWSPreparedRequest) -> TYPE_RESPONSE | None:
            def respond() -> TYPE_RESPONSE | None:
                return process(stubber, request)

            of_worker = self._works and request.url.startswith(f"https://{BUCKET}.s3.")
            return self.on_request(request, respond) if of_worker else respond()

        patch.setattr(BotocoreStubber, "process_request", process_request)

    def _invoke(
        self,
        backend: LambdaSimpleBackend,
        name: str,
        qualifier: str | None,
        body: str,
        _headers: object,
        response: dict[str, str],
    ) -> bytes:
        event = json.loads(body)
        function = backend.get_function(name, qualifier)
        # On Lambda each worker has its own process. Here they take turns, and are counted in that order.
        with self._process:
            number = self._started[event["step"]]
            self._started[event["step"]] += 1
            answer, failed = self._answered(event, number, function.function_arn)
            self.calls.append(Call(event, str(function.version), json.loads(answer)))
        response["X-Amz-Executed-Version"] = str(function.version)
        if failed:
            response["X-Amz-Function-Error"] = "Unhandled"
        return answer.encode()

    def _answered(self, event: Event, number: int, arn: str) -> tuple[str, bool]:
        """Return what the handler returns or reports, and whether it failed."""
        runtime = Runtime()
        deadline = time.time() + self.time(event).total_seconds()
        try:
            self.on_invoke(event, number)
            self._works = True
            handle_event_request(
                runtime,
                self.handler,
                invoke_id=f"{event['step']}-{number}",
                event_body=json.dumps(event),
                content_type="application/json",
                client_context_json="",
                cognito_identity_json="",
                invoked_function_arn=arn,
                epoch_deadline_time_in_ms=int(deadline * 1000),
                tenant_id=None,
                log_sink=StandardLogSink(),
            )
        except Death as death:
            return json.dumps(death.report), True
        finally:
            self._works = False
        return (runtime.result, False) if runtime.error is None else (runtime.error, True)


class Runtime:
    """The client of Lambda's runtime, which receives what the handler returned or raised."""

    marshaller = LambdaMarshaller()

    def __init__(self) -> None:
        self.result = ""
        self.error: str | None = None

    def post_invocation_result(self, _id: str, result: str | bytes, *_: object) -> None:
        """Receive what the handler returned."""
        self.result = result.decode() if isinstance(result, bytes) else result

    def post_invocation_error(self, _id: str, error: str, *_: object) -> None:
        """Receive what the handler raised."""
        self.error = error


def slow_down() -> TYPE_RESPONSE:
    """Return S3's response to too many requests."""
    body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    return 503, {"content-type": "application/xml"}, body.encode()


@contextlib.contextmanager
def aws() -> Iterator[pytest.MonkeyPatch]:
    """Yield a patch for a new AWS. The environment has no variables for the real one or for a function."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "DERENDER_"))]:
            patch.delenv(name)
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        with mock_aws(
            config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
        ):
            yield patch


def load_handler() -> Handler:
    """Load the handler as Lambda's runtime does, without changing how the process logs and warns."""
    with same_logging():
        handler: Handler = load_function("batch").handler
    return handler


def _without_waiting(patch: pytest.MonkeyPatch) -> None:
    """Keep the clients of the workers from waiting."""
    patch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _seconds: None))
    patch.setattr(TokenBucket, "acquire", lambda *_: True)


def _archive(content: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("batch.py", content)
    return buffer.getvalue()
