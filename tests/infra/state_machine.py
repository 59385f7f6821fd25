"""The state machine of `infra/batch.yaml`, run on moto's Step Functions and S3 with the batch handler in place.

The handler is called as on Lambda, by `awslambdaric`. What can go wrong does so where it would in AWS: at an
invocation, or at a request of the worker's to S3.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import threading
import time
import zipfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
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

from .step_functions import as_in_aws, without_executing

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
    "TEMPLATE",
    "Account",
    "Death",
    "Deployed",
    "Run",
    "aws",
    "deployed",
    "load_handler",
    "slow_down",
]

ROOT: Final = Path(__file__).parents[2]
TEMPLATE: Final = ROOT / "infra" / "batch.yaml"
REGION: Final = "eu-central-1"
BUCKET: Final = "batches"
INPUT: Final = "input/requests.jsonl"
FUNCTION: Final = "derender-BatchFunction-1A2B3C"
ALIAS: Final = "live"
PARAMETERS: Final = {
    "Service": "derender",
    "BatchFunctionArn": f"arn:aws:lambda:{REGION}:123456789012:function:{FUNCTION}:{ALIAS}",
    "BucketName": BUCKET,
    "MaxConcurrency": "3",
}
INVOCATION: Final = timedelta(minutes=15)
"""What the function has for an invocation."""
EXECUTION_SECONDS: Final = 300
"""An execution that takes longer hangs."""


class Deployed(NamedTuple):
    """What CloudFormation makes of the template."""

    definition: str
    role: str
    statements: list[dict[str, Any]]
    """Of the role's policy."""
    outputs: dict[str, str]


def deployed(**parameters: str) -> Deployed:
    """Deploy the template to the account that there is."""
    with pytest.MonkeyPatch.context() as patch:
        without_executing(patch)
        return _deployed({**PARAMETERS, **parameters})


def _deployed(parameters: dict[str, str]) -> Deployed:
    formation = boto3.client("cloudformation", REGION)
    formation.create_stack(
        StackName="derender-batch",
        TemplateBody=TEMPLATE.read_text(encoding="utf-8"),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
    )
    (stack,) = formation.describe_stacks(StackName="derender-batch")["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    states, iam = boto3.client("stepfunctions", REGION), boto3.client("iam", REGION)
    machine = states.describe_state_machine(stateMachineArn=outputs["StateMachineArn"])
    role = machine["roleArn"].rpartition("/")[2]
    (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    # moto gives a role's own policy as Python writes it, and None where CloudFormation leaves AWS::NoValue out.
    policy = ast.literal_eval(str(iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]))
    statements = [each for each in policy["Statement"] if each is not None]
    return Deployed(machine["definition"], machine["roleArn"], statements, outputs)


class Death(BaseException):
    """The worker's process ends here: nothing in it catches this.

    Args:
        report: What Lambda says of it.
    """

    def __init__(self, report: Mapping[str, str]) -> None:
        super().__init__(report)
        self.report = report


class Call(NamedTuple):
    """An invocation of the function."""

    event: Event
    version: str
    answer: Any
    """What was returned, or the error that was reported."""


class Run(NamedTuple):
    """An execution that has ended."""

    status: str
    output: Any
    error: str | None
    cause: str | None
    failed_parts: list[dict[str, Any]]
    """Error and cause of each of the Map Run's executions that failed."""
    part_outputs: list[Any]
    """What those that did not returned."""
    waits: list[float]
    """Seconds before each retry."""
    objects: dict[str, bytes]
    """What the job has written: key → content."""
    history: str
    """Events of the execution and of the Map Run's, as JSON."""


class Account:
    """An AWS account with a bucket, the function, and the state machine.

    Attributes:
        handler: The function's.
        on_invoke: Called before each invocation, with its event and how many with this step there were before.
        on_request: Called for each request of a worker's to S3, with what has it answered; gives the response.
        time: Event → what the invocation has of it.
        calls: The invocations, as they ended.

    Args:
        stack: What there is to deploy.
        handler: The function's.
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
        self._states = boto3.client("stepfunctions", REGION)
        self._s3 = boto3.client("s3", REGION)
        self._s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        role = boto3.client("iam", REGION).create_role(RoleName=FUNCTION, AssumeRolePolicyDocument="{}")
        self._lambda = boto3.client("lambda", REGION)
        self._lambda.create_function(
            FunctionName=FUNCTION,
            Runtime="python3.13",
            Role=role["Role"]["Arn"],
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
        """Deploy another version of the function, which the alias names then."""
        self._lambda.update_function_code(FunctionName=FUNCTION, ZipFile=_archive("second"), Publish=True)
        self._lambda.update_alias(FunctionName=FUNCTION, Name=ALIAS, FunctionVersion="2")

    def run(self, key: str = INPUT) -> Run:
        """Execute the state machine to its end."""
        request = {"input": f"s3://{BUCKET}/{key}", "output": f"s3://{BUCKET}/output/"}
        return self._executed("derender-batch", self._stack.definition, request)

    def redrive(self) -> Run:
        """Execute it from its Map on, with what that was given: what AWS does after the Map has failed.

        But for the parts that were done, which AWS leaves as they are.
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
        arn = self._states.create_state_machine(name=machine, definition=definition, roleArn=self._stack.role)[
            "stateMachineArn"
        ]
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
        # On Lambda each would have its own process. Here they take turns, and are counted as they get them.
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
        """What the handler returns or what is reported of it, and whether it is the latter."""
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
    """The client of Lambda's runtime: it takes what the handler returned or raised."""

    marshaller = LambdaMarshaller()

    def __init__(self) -> None:
        self.result = ""
        self.error: str | None = None

    def post_invocation_result(self, _id: str, result: str | bytes, *_: object) -> None:
        """What the handler returned."""
        self.result = result.decode() if isinstance(result, bytes) else result

    def post_invocation_error(self, _id: str, error: str, *_: object) -> None:
        """What it raised."""
        self.error = error


def slow_down() -> TYPE_RESPONSE:
    """S3's response to who asks too often."""
    body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    return 503, {"content-type": "application/xml"}, body.encode()


@contextlib.contextmanager
def aws() -> Iterator[pytest.MonkeyPatch]:
    """A new AWS, and what patches it. The environment has nothing for the real one, nor for a function."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "DERENDER_"))]:
            patch.delenv(name)
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        with mock_aws(
            config={"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
        ):
            yield patch


def load_handler() -> Handler:
    """The function's handler, as Lambda's runtime loads it. The process logs and warns as before."""
    with same_logging():
        handler: Handler = load_function("batch").handler
    return handler


def _without_waiting(patch: pytest.MonkeyPatch) -> None:
    """Have the workers' clients wait for nothing."""
    patch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _seconds: None))
    patch.setattr(TokenBucket, "acquire", lambda *_: True)


def _archive(content: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("batch.py", content)
    return buffer.getvalue()
