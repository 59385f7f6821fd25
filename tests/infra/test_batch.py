"""The batch state machine: its permissions, and the outcome of jobs in which something goes wrong."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest
from cfnlint import api  # type: ignore[import-untyped]
from moto.core.exceptions import JsonRESTError

from derender.batch.stores.s3 import ATTEMPTS

from .parameters import KEY
from .stack import ACCOUNT, REGION
from .state_machine import (
    BUCKET,
    FUNCTION,
    INPUT,
    PARTS_AT_ONCE,
    Account,
    Death,
    Deployed,
    Run,
    aws,
    deployed,
    load_handler,
    slow_down,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from botocore.awsrequest import AWSPreparedRequest
    from moto.core.common_types import TYPE_RESPONSE

    Event = dict[str, Any]
    Handler = Callable[[Any, Any], Any]
    Respond = Callable[[], TYPE_RESPONSE | None]

HERE: Final = f"{REGION}:{ACCOUNT}"


# --- the template ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stack() -> Deployed:
    return deployed()


@pytest.fixture(scope="module")
def states(stack: Deployed) -> dict[str, dict[str, Any]]:
    """Name → state, including the states of a part's execution."""
    top: dict[str, Any] = json.loads(stack.definition)["States"]
    return {**top, **top["Derender"]["ItemProcessor"]["States"]}


def test_the_definition_lints(stack: Deployed) -> None:
    # The linter does not look into the text of the template.
    machine = {"RoleArn": "arn:aws:iam::123456789012:role/batch", "DefinitionString": stack.definition}
    resource = {"Type": "AWS::StepFunctions::StateMachine", "Properties": machine}
    assert api.lint(json.dumps({"Resources": {"StateMachine": resource}})) == []


def test_a_task_outlasts_the_function_and_is_retried(states: dict[str, dict[str, Any]]) -> None:
    tasks = [state for state in states.values() if state["Type"] == "Task"]
    assert len(tasks) == 3
    for task in tasks:
        assert 900 < task["TimeoutSeconds"] < 1000
        hopeless, throttled, failed = task["Retry"]
        assert hopeless == {"ErrorEquals": ["BatchError"], "MaxAttempts": 0}
        assert throttled["ErrorEquals"] == ["Lambda.TooManyRequestsException"]
        assert failed["ErrorEquals"] == ["States.TaskFailed", "States.Timeout"]
        for retrier in (throttled, failed):
            assert retrier["JitterStrategy"] == "FULL"
            assert retrier["BackoffRate"] > 1
            assert retrier["MaxDelaySeconds"] == 60


def test_an_execution_ends(stack: Deployed) -> None:
    assert json.loads(stack.definition)["TimeoutSeconds"] == timedelta(weeks=1).total_seconds()


def test_nothing_is_caught_so_that_a_job_can_be_redriven(states: dict[str, dict[str, Any]]) -> None:
    assert not any("Catch" in state for state in states.values())
    assert states["Derender"]["ToleratedFailureCount"] == 0
    assert "ToleratedFailurePercentage" not in states["Derender"]


def test_parts_are_executions_of_their_own(states: dict[str, dict[str, Any]]) -> None:
    assert states["Derender"]["ItemProcessor"]["ProcessorConfig"] == {
        "Mode": "DISTRIBUTED",
        "ExecutionType": "STANDARD",  # an express execution has 5 minutes, a part up to 15 at a time
    }
    assert states["Derender"]["MaxConcurrency"] == PARTS_AT_ONCE


@pytest.mark.parametrize("tracing", ["on", "off"])
def test_failed_executions_are_logged_without_their_data(tracing: str) -> None:
    machine = deployed(Tracing=tracing, LogRetentionDays="7")
    logging = machine.properties["LoggingConfiguration"]
    assert (logging["Level"], logging["IncludeExecutionData"]) == ("ERROR", False)
    assert machine.properties["TracingConfiguration"] == {"Enabled": tracing == "on"}
    assert machine.log_group["RetentionInDays"] == "7"


def test_a_key_encrypts_executions_and_logs(stack: Deployed) -> None:
    assert stack.properties["EncryptionConfiguration"] == {"Type": "AWS_OWNED_KEY"}
    encrypted = deployed(KmsKeyArn=KEY)
    encryption = encrypted.properties["EncryptionConfiguration"]
    assert (encryption["Type"], encryption["KmsKeyId"]) == ("CUSTOMER_MANAGED_KMS_KEY", KEY)
    assert encrypted.log_group["KmsKeyId"] == KEY


# Resource → actions. AWS leaves no choice for a * in a resource:
GRANTED: Final = {
    # a job ends with the version it began with, whose number is not known before
    f"arn:aws:lambda:{HERE}:function:{FUNCTION}:*": {"lambda:InvokeFunction"},
    f"arn:aws:states:{HERE}:stateMachine:derender-batch": {"states:StartExecution"},
    # executions have random ids
    f"arn:aws:states:{HERE}:execution:derender-batch:*": {"states:DescribeExecution", "states:StopExecution"},
    f"arn:aws:states:{HERE}:execution:derender-batch/parts:*": {
        "states:DescribeExecution",
        "states:StopExecution",
        "states:RedriveExecution",
    },
    # IAM defines no resources for these actions
    "*": {
        "logs:CreateLogDelivery",
        "logs:GetLogDelivery",
        "logs:UpdateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:DescribeResourcePolicies",
        "logs:DescribeLogGroups",
        "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
        "xray:GetSamplingRules",
        "xray:GetSamplingTargets",
    },
}


def granted(statements: Iterable[dict[str, Any]]) -> dict[str, set[str]]:
    """Return resource → actions."""
    grants: dict[str, set[str]] = {}
    for statement in statements:
        assert statement["Effect"] == "Allow"
        for resource in several(statement["Resource"]):
            grants.setdefault(resource, set()).update(several(statement["Action"]))
    return grants


def several(value: str | list[str]) -> list[str]:
    """Return a list. A policy may hold one value instead."""
    return [value] if isinstance(value, str) else value


def test_the_role_has_least_privilege(stack: Deployed) -> None:
    assert granted(stack.statements) == GRANTED


def test_the_role_may_use_a_key_for_its_executions_and_logs_only() -> None:
    statements = deployed(KmsKeyArn=KEY).statements
    assert granted(statements) == {**GRANTED, KEY: {"kms:Decrypt", "kms:GenerateDataKey"}}
    contexts = {json.dumps(each["Action"]): each["Condition"] for each in statements if each["Resource"] == KEY}
    assert contexts == {
        '["kms:Decrypt", "kms:GenerateDataKey"]': {
            "StringEquals": {
                "kms:EncryptionContext:aws:states:stateMachineArn": (
                    f"arn:aws:states:{HERE}:stateMachine:derender-batch"
                )
            }
        },
        '"kms:GenerateDataKey"': {
            "StringEquals": {"kms:EncryptionContext:SourceArn": f"arn:aws:logs:{HERE}:*"}
        },
    }


# --- jobs -----------------------------------------------------------------------------------------------------

HELLO_WORLD: Final = [9707, 11, 1879, 0]
ZERO: Final = 15
"""Token of the digit 0. The other digits follow."""
END: Final = 151_645


def line(number: int, *, custom_id: str | None = None, prompt: str = "What is it?") -> bytes:
    """Return a line for `Hello, world!` and a number. Numbers with as many digits make lines of one length."""
    token_ids = [*HELLO_WORLD, *(ZERO + int(digit) for digit in str(number)), END]
    response = {
        "request_id": f"gen-{number:05}",
        "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop"}],
    }
    messages = [{"role": "user", "content": prompt}]
    request = {
        "custom_id": custom_id or f"line-{number:05}",
        "method": "POST",
        "url": "/v1/chat/completions/derender",
        "body": {"generate_response": response, "prompt_tokens": 5, "chat_request": {"messages": messages}},
    }
    return json.dumps(request).encode() + b"\n"


CLEAN: Final = [line(number) for number in range(100, 148)]
"""Lines of 5 parts, each but the last with 2 pieces."""
CORRUPT: Final = b"x" + CLEAN[20][1:]
DUPLICATE: Final = line(130, custom_id="line-00103")
LINES: Final = [*CLEAN[:20], CORRUPT, *CLEAN[21:30], DUPLICATE, *CLEAN[31:]]
"""The same with a line that is not JSON, and one with the id of an earlier line."""
PARTS: Final = (0, 4096, 8192, 12288, 16384)
"""Starts of the parts."""


@pytest.fixture(scope="module")
def handler() -> Handler:
    with aws():
        return load_handler()


@contextmanager
def job(stack: Deployed, handler: Handler, lines: Iterable[bytes]) -> Iterator[Account]:
    """Yield an account with an input, whose parts and pieces are small."""
    with aws() as patch:
        patch.setattr("derender.batch.steps.plan.MIN_PART_BYTES", PARTS[1])
        patch.setattr("derender.batch.steps.derender.MAX_LINES", 8)
        account = Account(stack, handler, patch)
        account.put(INPUT, b"".join(lines))
        yield account


@pytest.fixture
def account(stack: Deployed, handler: Handler) -> Iterator[Account]:
    with job(stack, handler, LINES) as account:
        yield account


@pytest.fixture(scope="module")
def undisturbed(stack: Deployed, handler: Handler) -> Run:
    """The outcome of that job without disturbances."""
    with job(stack, handler, LINES) as account:
        return account.run()


@pytest.fixture(scope="module")
def clean(stack: Deployed, handler: Handler) -> Run:
    """The outcome of a job without bad lines."""
    with job(stack, handler, CLEAN) as account:
        return account.run()


def manifest(run: Run) -> Any:
    return json.loads(run.objects["output/job-1/manifest.json"])


def results(run: Run) -> list[Any]:
    """Return the lines of the results in the order of the manifest."""
    content = b"".join(run.objects[each["key"]] for each in manifest(run)["results"])
    return [json.loads(each) for each in content.splitlines()]


def errors(run: Run) -> list[Any]:
    """Return the lines of the errors."""
    return [json.loads(each) for each in run.objects[manifest(run)["errors"]["key"]].splitlines()]


def said(result: Any) -> tuple[str, str]:
    """Return custom id and text of a result."""
    (choice,) = result["response"]["body"]["choices"]
    return result["custom_id"], choice["message"]["content"]


def assert_as_undisturbed(run: Run, undisturbed: Run) -> None:
    """Check that nothing is lost or doubled, and that every byte is the same."""
    assert (run.status, run.output) == (undisturbed.status, undisturbed.output)
    assert run.objects == undisturbed.objects


def test_each_line_is_answered_in_order(undisturbed: Run) -> None:
    assert undisturbed.status == "SUCCEEDED"
    assert [said(result) for result in results(undisturbed)] == [
        (f"line-{number:05}", f"Hello, world!{number}")
        for number in range(100, 148)
        if number not in (120, 130)
    ]
    assert undisturbed.output == {
        "manifest": f"s3://{BUCKET}/output/job-1/manifest.json",
        "counts": {"total": 48, "completed": 46, "failed": 2},
    }


def test_parts_return_nothing(undisturbed: Run) -> None:
    # The outputs of 10,000 parts may have 256 KB together.
    assert undisturbed.part_outputs == [{}] * len(PARTS)


def test_a_bad_line_costs_only_itself(undisturbed: Run, clean: Run) -> None:
    expected = results(clean)
    del expected[30], expected[20]
    assert results(undisturbed) == expected
    assert [(error["custom_id"], error["error"]["code"]) for error in errors(undisturbed)] == [
        (None, "invalid_json_line"),
        ("line-00103", "duplicate_custom_id"),
    ]


def test_parts_of_the_real_size_are_answered_in_order(stack: Deployed, handler: Handler) -> None:
    lines = [line(number, prompt="What is it?" * 200) for number in range(1600)]
    with aws() as patch:
        account = Account(stack, handler, patch)
        account.put(INPUT, b"".join(lines))
        run = account.run()
    assert run.part_outputs == [{}] * 4
    assert [said(result) for result in results(run)] == [
        (f"line-{number:05}", f"Hello, world!{number}") for number in range(1600)
    ]
    assert run.output["counts"] == {"total": 1600, "completed": 1600, "failed": 0}


# --- workers that die -----------------------------------------------------------------------------------------

DEATHS: Final = {
    "out of memory": {
        "errorType": "Runtime.ExitError",
        "errorMessage": "RequestId: 1-2-3 Error: Runtime exited with error: signal: killed",
    },
    "out of time": {
        "errorType": "Sandbox.Timedout",
        "errorMessage": "RequestId: 1-2-3 Error: Task timed out after 900.00 seconds",
    },
    # Step Functions' name for an end that Lambda does not name.
    "unknown": {"errorType": "Lambda.Unknown", "errorMessage": "The cause could not be determined"},
}
"""Reports of the end of a worker."""


@pytest.mark.parametrize("death", DEATHS)
def test_another_worker_replaces_one_that_dies(account: Account, undisturbed: Run, death: str) -> None:
    def die(event: Event, number: int) -> None:
        if (event["step"], number) in (("plan", 0), ("derender", 1), ("derender", 2), ("finish", 0)):
            raise Death(DEATHS[death])

    account.on_invoke = die
    run = account.run()
    assert_as_undisturbed(run, undisturbed)
    assert len(run.waits) == 4


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_worker_may_die_at_any_write(account: Account, undisturbed: Run, *, written: bool) -> None:
    working = list[str]()
    died = set[tuple[str, str]]()

    def die_once(request: AWSPreparedRequest, respond: Respond) -> TYPE_RESPONSE | None:
        write = working[-1], request.url
        if request.method != "PUT" or write in died:
            return respond()
        died.add(write)
        if written:
            respond()
        raise Death(DEATHS["out of memory"])

    account.on_invoke = lambda event, _number: working.append(event["step"])
    account.on_request = die_once
    run = account.run()
    assert_as_undisturbed(run, undisturbed)
    assert {url for _, url in died} == {
        f"https://{BUCKET}.s3.eu-central-1.amazonaws.com/{key}" for key in run.objects
    }
    assert len(run.waits) == len(died)


def test_an_answer_may_be_lost(account: Account, undisturbed: Run) -> None:
    lost: set[str] = set()

    def lose_first_answer(event: Event, context: Any) -> Any:
        answer = handler(event, context)
        if (key := json.dumps(event)) not in lost:
            lost.add(key)
            raise Death(DEATHS["out of time"])
        return answer

    handler, account.handler = account.handler, lose_first_answer
    run = account.run()
    assert_as_undisturbed(run, undisturbed)
    assert len(run.waits) == len(lost) == len(PARTS) + 2


def test_a_worker_that_always_dies_fails_the_job_with_its_error(account: Account) -> None:
    account.on_invoke = die_in_second_part
    run = account.run()
    assert (run.status, run.error) == ("FAILED", "States.ExceedToleratedFailureThreshold")
    (failed,) = run.failed_parts
    assert failed["error"] == "Runtime.ExitError"
    assert "signal: killed" in failed["cause"]
    assert "output/job-1/manifest.json" not in run.objects
    assert [call.event["start"] for call in account.calls if "start" in call.event].count(PARTS[1]) == 7
    assert len(run.waits) == 6
    assert max(run.waits) <= 60


def test_a_failed_job_can_be_redriven(account: Account, undisturbed: Run) -> None:
    account.on_invoke = die_in_second_part
    account.run()
    account.on_invoke = lambda _event, _number: None
    assert_as_undisturbed(account.redrive(), undisturbed)


def die_in_second_part(event: Event, _number: int) -> None:
    if event.get("start") == PARTS[1]:
        raise Death(DEATHS["out of memory"])


def test_a_part_may_take_several_invocations(account: Account, undisturbed: Run) -> None:
    account.time = lambda _event: timedelta(seconds=30)
    assert_as_undisturbed(account.run(), undisturbed)
    steps = [call for call in account.calls if call.event["step"] == "derender"]
    assert len(steps) == len([key for key in undisturbed.objects if "/records/" in key])
    goes_on = {call.answer["next"] for call in steps} - {None}
    assert goes_on
    assert {call.event["start"] for call in steps} == goes_on | {*PARTS}


# --- busy services --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "times"),
    [
        ("TooManyRequestsException", 429, 30),  # many parts wait for a function
        ("ServiceException", 500, 5),
        ("SdkClientException", 503, 5),
    ],
)
def test_lambda_may_refuse_for_a_while(
    account: Account, undisturbed: Run, error: str, status: int, times: int
) -> None:
    def refuse(event: Event, number: int) -> None:
        if event["step"] == "derender" and number < times:
            refusal = JsonRESTError(error, "Try again.")
            refusal.code = status
            raise refusal

    account.on_invoke = refuse
    run = account.run()
    assert_as_undisturbed(run, undisturbed)
    assert len(run.waits) == times
    assert max(run.waits) <= 60


@pytest.mark.parametrize(
    ("slowed", "retries"),
    [
        pytest.param(range(0, 1000, 3), 0, id="now and then"),
        pytest.param(range(5 * ATTEMPTS), 5, id="at the beginning, for longer than a client tries"),
        pytest.param(range(20, 20 + 5 * ATTEMPTS), 5, id="in mid-job, for longer than a client tries"),
    ],
)
def test_s3_may_be_busy(account: Account, undisturbed: Run, slowed: Collection[int], retries: int) -> None:
    number = count()
    account.on_request = lambda _request, respond: slow_down() if next(number) in slowed else respond()
    run = account.run()
    assert_as_undisturbed(run, undisturbed)
    assert len(run.waits) == retries


# --- wrong inputs ---------------------------------------------------------------------------------------------


def test_a_missing_input_fails_the_job_at_once(account: Account) -> None:
    run = account.run("input/absent.jsonl")
    assert (run.status, run.error) == ("FAILED", "BatchError")
    assert f"s3://{BUCKET}/input/absent.jsonl does not exist" in (run.cause or "")
    assert len(account.calls) == 1
    assert run.objects == {}


def test_an_input_that_is_replaced_during_the_job_fails_it(account: Account) -> None:
    def replace(event: Event, number: int) -> None:
        if (event["step"], number) == ("derender", 1):
            account.put(INPUT, b"".join(CLEAN))

    account.on_invoke = replace
    run = account.run()
    assert (run.status, run.error) == ("FAILED", "States.ExceedToleratedFailureThreshold")
    assert len(run.failed_parts) == len(PARTS) - 1
    assert {each["error"] for each in run.failed_parts} == {"BatchError"}
    assert all(f"s3://{BUCKET}/{INPUT} was replaced" in each["cause"] for each in run.failed_parts)
    assert run.waits == []
    assert "output/job-1/manifest.json" not in run.objects


# --- all jobs -------------------------------------------------------------------------------------------------


def test_a_job_ends_with_the_version_it_began_with(account: Account, undisturbed: Run) -> None:
    def release(event: Event, number: int) -> None:
        if (event["step"], number) == ("derender", 0):
            account.release()

    account.on_invoke = release
    assert_as_undisturbed(account.run(), undisturbed)
    assert [call.version for call in account.calls] == ["1"] * (len(PARTS) + 2)


def test_the_history_holds_nothing_of_a_line(account: Account, undisturbed: Run) -> None:
    account.on_invoke = die_in_second_part
    for history in (undisturbed.history, account.run().history):
        assert "DerenderPart" in history
        for of_a_line in ("line-00", "gen-00", "What is it?", "Hello", str(HELLO_WORLD[0]), "token_ids"):
            assert of_a_line not in history
