"""The application's stack: who may call, how versions are published and deployed, and what the outputs are."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest

from .documents import access_log, permissions, routes
from .parameters import API_KEY, DIGEST, FUNCTION_URL, JWT, OPEN, REST_API, TOPIC
from .stack import REGION, TEMPLATE, Stack, read, stack, translate

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONED: Final = {"": "ApiFunction", "BatchStack": "BatchFunction", "RelayStack": "RelayFunction"}
"""Nested stack, or none → the function in it that has versions."""


def part(made: Stack, name: str) -> Stack:
    """A nested stack, or the stack itself."""
    return made.nested[name] if name else made


# --- who may call ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "scheme"),
    [({}, "AWS_IAM"), (JWT, "jwt"), (API_KEY, "api-key"), (OPEN, None)],
)
def test_the_api_authenticates_as_chosen(parameters: dict[str, str], scheme: str | None) -> None:
    body = stack(**parameters).properties("HttpApi")["Body"]
    assert {name for name, _, _ in routes(body)} == {"get /{path+}", "post /{path+}"}
    for _, route, integration in routes(body):
        assert route["security"] == ([{scheme: []}] if scheme else [])
        assert integration["uri"].endswith("/functions/${ApiFunction.Arn}:live/invocations")
        assert integration["payloadFormatVersion"] == "2.0"
    schemes = body["components"]["securitySchemes"]
    assert schemes.keys() == {"AWS_IAM", scheme or "AWS_IAM"}
    assert schemes["AWS_IAM"]["x-amazon-apigateway-authtype"] == "awsSigv4"


def test_jwt_accepts_tokens_of_the_issuer_for_the_audience() -> None:
    schemes = stack(**JWT).properties("HttpApi")["Body"]["components"]["securitySchemes"]
    assert schemes["jwt"]["x-amazon-apigateway-authorizer"] == {
        "type": "jwt",
        "identitySource": "$request.header.Authorization",
        "jwtConfiguration": {"issuer": "https://id.example", "audience": ["derender", "other"]},
    }


def test_the_authorizer_checks_api_keys() -> None:
    made = stack(**API_KEY)
    scheme = made.properties("HttpApi")["Body"]["components"]["securitySchemes"]["api-key"]
    assert scheme["x-amazon-apigateway-authorizer"] == {
        "type": "request",
        "identitySource": "$request.header.Authorization",
        "authorizerUri": (
            f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/"
            "${AuthorizerFunction.Arn}/invocations"
        ),
        "authorizerPayloadFormatVersion": "2.0",
        "enableSimpleResponses": True,
        "authorizerResultTtlInSeconds": 300,
    }
    assert made.variables("AuthorizerFunction") == {"API_KEY_DIGESTS": DIGEST}
    (permission,) = permissions(made, "${AuthorizerFunction}")
    assert permission["SourceArn"].endswith("${HttpApi}/authorizers/*")


@pytest.mark.parametrize("parameters", [{}, JWT, OPEN])
def test_only_api_keys_need_the_authorizer(parameters: dict[str, str]) -> None:
    assert not [name for name in stack(**parameters).resources if "Authorizer" in name]


def test_a_preflight_request_reaches_no_function() -> None:
    """API Gateway answers it itself if no route takes OPTIONS, as `ANY` and `$default` would."""
    body = stack(CorsOrigins="https://a.example,https://b.example").properties("HttpApi")["Body"]
    assert {method for methods in body["paths"].values() for method in methods} == {"get", "post"}
    cors = body["x-amazon-apigateway-cors"]
    assert cors["allowOrigins"] == ["https://a.example", "https://b.example"]
    assert set(cors["allowMethods"]) == {"GET", "POST"}
    assert "authorization" in cors["allowHeaders"]
    assert "x-amazon-apigateway-cors" not in stack().properties("HttpApi")["Body"]


def test_the_api_is_throttled() -> None:
    (stage,) = stack(ThrottlingRate="7").of_type("AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": "7", "ThrottlingBurstLimit": "7"}


def test_the_access_log_holds_nothing_of_a_request() -> None:
    (stage,) = stack().of_type("AWS::ApiGatewayV2::Stage").values()
    assert access_log(stage["AccessLogSettings"]["Format"])


# --- the functions --------------------------------------------------------------------------------------------


def test_the_functions_have_the_same_layer_and_processor() -> None:
    made = stack(Architecture="arm64", **FUNCTION_URL)
    functions = [part(made, name).properties(function) for name, function in VERSIONED.items()]
    assert [each["Architectures"] for each in functions] == [["arm64"]] * 3
    layer, *others = (each["Layers"][0] for each in functions)
    assert others == [layer, layer]


def test_parameters_size_the_api_function() -> None:
    made = stack(MemorySize="555", ReservedConcurrency="7")
    function = made.properties("ApiFunction")
    assert (function["MemorySize"], function["ReservedConcurrentExecutions"]) == ("555", "7")


def test_nothing_is_reserved_or_provisioned_by_default() -> None:
    made = stack(**FUNCTION_URL)
    for name, function in VERSIONED.items():
        assert "ReservedConcurrentExecutions" not in part(made, name).properties(function)
        assert "ProvisionedConcurrencyConfig" not in part(made, name).properties(f"{function}Aliaslive")
    assert made.properties("ApiFunction")["SnapStart"] == {"ApplyOn": "None"}


def test_the_api_function_can_start_before_a_request() -> None:
    alias = stack(ProvisionedConcurrency="5").properties("ApiFunctionAliaslive")
    assert alias["ProvisionedConcurrencyConfig"] == {"ProvisionedConcurrentExecutions": "5"}
    assert stack(SnapStart="on").properties("ApiFunction")["SnapStart"] == {"ApplyOn": "PublishedVersions"}


# --- versions -------------------------------------------------------------------------------------------------


def test_sam_publishes_no_version_for_the_value_of_a_parameter() -> None:
    """This is why there is a Configuration. It also lets tests fill in parameters after the translation."""
    template = read(TEMPLATE)
    one = translate(template, {})
    other = translate(template, {"MemorySize": "3000", "StateKey": "another key of the states", "Model": "m"})
    assert one == other


@pytest.mark.parametrize(("name", "function"), VERSIONED.items())
def test_each_parameter_of_a_version_is_in_the_configuration(name: str, function: str) -> None:
    root = stack(**REST_API)
    made = part(root, name)
    template = made.template["Resources"]
    # Reserved concurrency belongs to the function, not to its versions.
    properties = {**template[function]["Properties"], "ReservedConcurrentExecutions": None}
    needed = inputs(properties, made.template)
    if name:
        assert "Configuration" in needed
        given = root.template["Resources"][name]["Properties"]["Parameters"]
        values = [given[each] for each in needed]
        needed = inputs(values, root.template)
    assert needed <= configured(root), needed - configured(root)


def test_the_configuration_holds_parameters_and_the_layer_only() -> None:
    made = stack()
    content = made.template["Resources"]["Configuration"]["Properties"]["Content"]
    assert references(content, made.template) == configured(made)


@pytest.mark.parametrize(("name", "function"), VERSIONED.items())
def test_another_configuration_publishes_another_version(name: str, function: str) -> None:
    made = part(stack(**FUNCTION_URL), name)
    (version,) = made.of_type("AWS::Lambda::Version")
    # CloudFormation replaces the version if its description changes, and Lambda publishes one if the
    # function's changes.
    assert made.properties(version)["Description"] == "Configuration ${Configuration}."
    assert made.properties(function)["Description"].endswith(" Configuration ${Configuration}.")
    assert made.properties(f"{function}Aliaslive")["FunctionVersion"] == f"${{{version}.Version}}"
    # Work in progress ends with the version it began with.
    assert made.resources[version]["DeletionPolicy"] == "Retain"
    assert made.resources[version]["UpdateReplacePolicy"] == "Retain"


@pytest.mark.parametrize(
    ("preference", "alarms"),
    [
        ("AllAtOnce", ["ApiVersionErrors"]),
        ("Canary10Percent5Minutes", ["ApiVersionErrors", "ApiFaults"]),
        ("Linear10PercentEvery1Minute", ["ApiVersionErrors", "ApiFaults"]),
    ],
)
def test_codedeploy_shifts_traffic_and_rolls_back_on_alarms(preference: str, alarms: list[str]) -> None:
    made = stack(**FUNCTION_URL, DeploymentPreference=preference)
    for name, function, watched in (
        ("", "ApiFunction", alarms),
        ("RelayStack", "RelayFunction", ["RelayVersionErrors"]),
    ):
        group = part(made, name).properties(f"{function}DeploymentGroup")
        assert group["DeploymentConfigName"] == f"CodeDeployDefault.Lambda{preference}"
        assert group["AlarmConfiguration"] == {
            "Enabled": True,
            "Alarms": [{"Name": f"${{{each}}}"} for each in watched],
        }
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
        alias = part(made, name).resources[f"{function}Aliaslive"]
        update = alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        assert update["DeploymentGroupName"] == f"${{{function}DeploymentGroup}}"


@pytest.mark.parametrize(("name", "prefix"), [("", "Api"), ("RelayStack", "Relay")])
def test_the_alarm_watches_the_new_version(name: str, prefix: str) -> None:
    made = part(stack(**FUNCTION_URL), name)
    alarm = made.properties(f"{prefix}VersionErrors")
    expression, *metrics = alarm["Metrics"]
    assert expression["Expression"] == "100 * errors / invocations"
    function = f"${{{prefix}Function}}"
    version = made.properties(f"{prefix}FunctionAliaslive")["FunctionVersion"]
    for each in metrics:
        dimensions = {one["Name"]: one["Value"] for one in each["MetricStat"]["Metric"]["Dimensions"]}
        assert dimensions == {
            "FunctionName": function,
            "Resource": f"{function}:live",
            "ExecutedVersion": version,
        }
    assert alarm["TreatMissingData"] == "notBreaching"


# --- nested stacks and outputs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "stacks"),
    [
        ({}, {"BatchStack"}),
        ({"Batch": "off"}, set()),
        (REST_API, {"BatchStack", "RelayStack"}),
    ],
)
def test_alarms_and_dashboard_watch_the_stacks_that_exist(parameters: dict[str, str], stacks: set[str]) -> None:
    made = stack(**parameters)
    assert made.nested.keys() == {"Alarms", "Dashboard"} | stacks
    for name in ("Alarms", "Dashboard"):
        given = made.nested[name].parameters
        for parameter, watched, output in (
            ("BatchFunctionName", "BatchStack", "FunctionName"),
            ("StateMachineArn", "BatchStack", "StateMachineArn"),
            ("RelayFunctionName", "RelayStack", "FunctionName"),
        ):
            expected = f"${{{watched}.Outputs.{output}}}" if watched in stacks else ""
            assert given[parameter] == expected


def test_nested_stacks_have_the_outputs_that_others_use() -> None:
    for made in stack(**REST_API).walk():
        text = json.dumps(made.template)
        for name, output in re.findall(r"\b(\w+)\.Outputs\.(\w+)|", text):
            assert not name or name not in made.nested or output in made.nested[name].outputs


def test_all_names_begin_with_the_service() -> None:
    named = [
        name
        for made in stack(**API_KEY, **REST_API).walk()
        for each in made.resources.values()
        for key, name in each["Properties"].items()
        if key in ("AlarmName", "DashboardName", "LogGroupName", "LayerName", "StateMachineName")
    ]
    assert len(named) > 15
    assert all(re.fullmatch(r"(/[a-z/]+/)?derender(-[a-z]+)*", name) for name in named), named


def test_alarms_notify_the_topic() -> None:
    for parameters, actions in (({}, None), ({"AlarmTopic": TOPIC}, [TOPIC])):
        for each in stack(**FUNCTION_URL, **parameters).walk():
            for name, alarm in each.of_type("AWS::CloudWatch::Alarm").items():
                # Only CodeDeploy reads ApiFaults. Another alarm tells people the same.
                assert alarm.get("AlarmActions") == (actions if name != "ApiFaults" else None), name


@pytest.mark.parametrize(
    ("parameters", "header"),
    [({}, "x-amz-security-token: $AWS_SESSION_TOKEN"), (JWT, "authorization: Bearer $TOKEN"), (OPEN, None)],
)
def test_an_output_calls_the_api(parameters: dict[str, str], header: str | None) -> None:
    curl, *arguments, url = shlex.split(stack(**parameters).output("Curl"))
    assert (curl, url) == ("curl", "${HttpApi.ApiEndpoint}/v1/models")
    assert ([arguments[arguments.index("-H") + 1]] if header else arguments) == ([header] if header else [])
    assert ("--aws-sigv4" in arguments) == (not parameters)


@pytest.mark.parametrize(("parameters", "bucket"), [({}, "${Bucket}"), ({"BatchBucket": "files"}, "files")])
def test_an_output_starts_a_batch(parameters: dict[str, str], bucket: str) -> None:
    made = stack(**parameters).nested["BatchStack"]
    assert made.output("BucketName") == bucket
    copy, start = made.output("Command").split(" && ")
    assert shlex.split(copy)[-1] == f"s3://{bucket}/input/"
    assert start.startswith("aws stepfunctions start-execution --state-machine-arn ${StateMachine} ")
    given = json.loads(shlex.split(start)[-1])
    assert given == {"input": f"s3://{bucket}/input/requests.jsonl", "output": f"s3://{bucket}/output/"}


def configured(made: Stack) -> set[str]:
    """The parameters and layers whose values the configuration holds."""
    return inputs(made.template["Resources"]["Configuration"]["Properties"]["Content"], made.template)


def inputs(value: Any, template: dict[str, Any]) -> set[str]:
    """The parameters and layers that a value depends on."""
    resources = template["Resources"].items()
    layers = {name for name, each in resources if each["Type"] == "AWS::Lambda::LayerVersion"}
    return references(value, template) & {*template["Parameters"], *layers}


def references(value: Any, template: dict[str, Any]) -> set[str]:
    """The parameters and resources that a value depends on, through conditions too."""
    return set(_references(value, template))


def _references(value: Any, template: dict[str, Any]) -> Iterator[str]:
    match value:
        case {"Ref": str(name)}:
            yield name
        case {"Fn::If": [condition, *values]}:
            yield from _references([template["Conditions"][condition], values], template)
        case {"Condition": str(name)} if len(value) == 1:
            yield from _references(template["Conditions"][name], template)
        case {"Fn::Sub": str(text)}:
            yield from re.findall(r"\$\{([A-Za-z0-9:]+)\}", text)
        case {"Fn::Sub": [text, names]}:
            yield from _references([{"Fn::Sub": text}, names], template)
        case dict():
            yield from _references([*value.values()], template)
        case list():
            for each in value:
                yield from _references(each, template)
