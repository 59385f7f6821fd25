"""The application's template: what its parameters make of it."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest
from cfnlint import api as cfnlint  # type: ignore[import-untyped]

from derender.errors import (
    BadRequest,
    GatewayTimeout,
    InternalError,
    RequestTooLarge,
    UpstreamRefusal,
)

from .building import sam
from .stack import REGION, ROOT, Stack, read, stack, translate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPLATES: Final = [ROOT / "template.yaml", *sorted(ROOT.glob("infra/*.yaml"))]
UPSTREAMS: Final = '{"gpu": "http://127.0.0.1:9"}'
"""Nobody is there."""
DIGEST: Final = "0123456789abcdef" * 4
JWT: Final = {"Authorization": "jwt", "JwtIssuer": "https://id.example", "JwtAudience": "derender,other"}
API_KEY: Final = {"Authorization": "api-key", "ApiKeyDigests": DIGEST}
OPEN: Final = {"Authorization": "open-to-everyone"}
FUNCTION_URL: Final = {"Relay": "function-url", "Upstreams": UPSTREAMS}
REST_API: Final = {"Relay": "rest-api", "Upstreams": UPSTREAMS}
NETWORK: Final = {
    "RelaySubnets": "subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718",
    "RelaySecurityGroups": "sg-4e5f6071",
}
EVERYTHING: Final = {**API_KEY, **REST_API, "CorsOrigins": "https://a.example,https://b.example"}
VERSIONED: Final = ("ApiFunction", "BatchFunction", "RelayFunction")
"""The functions that have an alias."""
FORBIDDEN: Final = (403, "ForbiddenError")
"""As the application would call it: the phrase of the status."""


# --- as it is written -----------------------------------------------------------------------------------------


def test_validates() -> None:
    assert "is a valid SAM Template" in sam("validate", "--lint")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_lint(path: Path) -> None:
    assert cfnlint.lint_file(path) == []


def test_parameters_are_described_labelled_and_grouped_once() -> None:
    template = read(ROOT / "template.yaml")
    interface = template["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]
    assert sorted(grouped) == sorted(template["Parameters"])
    assert interface["ParameterLabels"].keys() == template["Parameters"].keys()
    assert all(len(each["Description"]) >= 15 and "Default" in each for each in template["Parameters"].values())


def test_secrets_are_not_echoed() -> None:
    parameters = read(ROOT / "template.yaml")["Parameters"]
    hidden = {name for name, parameter in parameters.items() if parameter.get("NoEcho")}
    assert hidden == {"ApiKeyDigests", "RenderUrl", "StateKey", "Upstreams"}


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        JWT,
        API_KEY,
        OPEN,
        FUNCTION_URL,
        REST_API,
        {**API_KEY, **REST_API},
        {**OPEN, **FUNCTION_URL},
        {**OPEN, **REST_API},
        {"SnapStart": "on"},
        {"ProvisionedConcurrency": "5", "ReservedConcurrency": "100"},
        {"Batch": "off"},
        {"BatchBucket": "files"},
        {**REST_API, **NETWORK},
    ],
)
def test_what_makes_sense_is_made(parameters: dict[str, str]) -> None:
    assert stack(**parameters).refusals == []


@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({"Relay": "function-url"}, "needs Upstreams"),
        ({"Relay": "rest-api"}, "needs Upstreams"),
        ({**JWT, "JwtIssuer": ""}, "needs JwtIssuer"),
        ({**JWT, "JwtAudience": ""}, "needs JwtAudience"),
        ({**JWT, **REST_API}, "relay can't check JSON web tokens"),
        ({**JWT, **FUNCTION_URL}, "relay can't check JSON web tokens"),
        ({"JwtIssuer": "https://id.example"}, "Tokens are not checked"),
        ({**OPEN, "JwtAudience": "derender"}, "Tokens are not checked"),
        ({"Authorization": "api-key"}, "needs ApiKeyDigests"),
        ({**API_KEY, **FUNCTION_URL}, "can't check API keys"),
        ({**OPEN, "ApiKeyDigests": DIGEST}, "Keys are not checked"),
        ({"SnapStart": "on", "ProvisionedConcurrency": "1"}, "exclude each other"),
        ({"Batch": "off", "BatchBucket": "files"}, "for Batch on"),
        ({**REST_API, "RelaySubnets": "subnet-0a1b2c3d"}, "need each other"),
        ({**REST_API, "RelaySecurityGroups": "sg-4e5f6071"}, "need each other"),
        ({**FUNCTION_URL, **NETWORK}, "for Relay rest-api"),
        (NETWORK, "for Relay rest-api"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters: dict[str, str], refusal: str) -> None:
    (refused,) = stack(**parameters).refusals
    assert refusal in refused


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("ApiKeyDigests", f"{DIGEST},{DIGEST}", True),
        ("ApiKeyDigests", "a key as it is", False),
        ("ApiKeyDigests", DIGEST.upper(), False),
        ("StateKey", "too short", False),
        ("StateKey", "0123456789abcdef,0123456789abcdef", True),
        ("JwtIssuer", "id.example", False),
        ("BatchBucket", "My_Bucket", False),
        ("KmsKeyArn", f"arn:aws:kms:{REGION}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab", True),
        ("KmsKeyArn", "alias/derender", False),
        ("AlarmTopic", f"arn:aws:sns:{REGION}:123456789012:alarms", True),
        ("AlarmTopic", "me@example.org", False),
        ("CorsOrigins", "https://a.example,https://b.example", True),
        ("CorsOrigins", "https://a.example, https://b.example", False),
        ("JwtAudience", "a, b", False),
        ("RelaySubnets", "subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718", True),
        ("RelaySubnets", "vpc-0a1b2c3d", False),
        ("RelaySecurityGroups", "sg-4e5f6071, sg-0a1b2c3d", False),
    ],
)
def test_parameters_have_their_form(name: str, value: str, fits: bool) -> None:
    parameter = read(ROOT / "template.yaml")["Parameters"][name]
    assert bool(re.fullmatch(parameter["AllowedPattern"], value)) == fits
    assert re.fullmatch(parameter["AllowedPattern"], parameter["Default"])


def test_secrets_have_a_default_that_can_be_typed() -> None:
    # `sam deploy --guided` shows no default of theirs, and takes no empty answer.
    for parameter in read(ROOT / "template.yaml")["Parameters"].values():
        assert not parameter.get("NoEcho") or parameter["Default"] == "none"


def test_what_is_none_is_not_set() -> None:
    made = stack(**FUNCTION_URL)
    for name in ("DERENDER_STATE_KEY", "DERENDER_RENDER_URL"):
        assert made.variables("RelayFunction")[name] == ""


# --- who may call ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "scheme"),
    [({}, "AWS_IAM"), (JWT, "jwt"), (API_KEY, "api-key"), (OPEN, None)],
)
def test_the_api_asks_for_what_was_chosen(parameters: dict[str, str], scheme: str | None) -> None:
    body = stack(**parameters).properties("HttpApi")["Body"]
    assert {name for name, _, _ in routes(body)} == {"get /{path+}", "post /{path+}"}
    for _, route, integration in routes(body):
        assert route["security"] == ([{scheme: []}] if scheme else [])
        assert integration["uri"].endswith("/functions/${ApiFunction.Arn}:live/invocations")
        assert integration["payloadFormatVersion"] == "2.0"
    assert scheme is None or scheme in body["components"]["securitySchemes"]


def test_iam_asks_for_signed_requests() -> None:
    for made in (stack().properties("HttpApi"), stack(**REST_API).properties("RelayApi")):
        scheme = made["Body"]["components"]["securitySchemes"]["AWS_IAM"]
        assert scheme["x-amazon-apigateway-authtype"] == "awsSigv4"


def test_jwt_asks_for_tokens_of_the_issuer() -> None:
    schemes = stack(**JWT).properties("HttpApi")["Body"]["components"]["securitySchemes"]
    assert schemes["jwt"]["x-amazon-apigateway-authorizer"] == {
        "type": "jwt",
        "identitySource": "$request.header.Authorization",
        "jwtConfiguration": {"issuer": "https://id.example", "audience": ["derender", "other"]},
    }
    assert "jwt" not in stack().properties("HttpApi")["Body"]["components"]["securitySchemes"]


def test_api_keys_are_checked_by_the_authorizer_at_both_apis() -> None:
    made = stack(**API_KEY, **REST_API)
    uri = (
        f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/${{AuthorizerFunction.Arn}}/invocations"
    )
    schemes = {
        name: made.properties(name)["Body"]["components"]["securitySchemes"]["api-key"]
        for name in ("HttpApi", "RelayApi")
    }
    assert schemes["HttpApi"]["x-amazon-apigateway-authorizer"] == {
        "type": "request",
        "identitySource": "$request.header.Authorization",
        "authorizerUri": uri,
        "authorizerPayloadFormatVersion": "2.0",
        "enableSimpleResponses": True,
        "authorizerResultTtlInSeconds": 300,
    }
    assert schemes["RelayApi"]["x-amazon-apigateway-authtype"] == "custom"
    assert schemes["RelayApi"]["x-amazon-apigateway-authorizer"] == {
        "type": "request",
        "identitySource": "method.request.header.Authorization",
        "authorizerUri": uri,
        "authorizerResultTtlInSeconds": 300,
    }
    assert made.variables("AuthorizerFunction") == {"API_KEY_DIGESTS": DIGEST}
    asked = {each["SourceArn"].split(":")[-1] for each in permissions(made, "${AuthorizerFunction}")}
    assert asked == {"${HttpApi}/authorizers/*", "${RelayApi}/authorizers/*"}


@pytest.mark.parametrize("parameters", [{}, JWT, OPEN, {**OPEN, **REST_API}])
def test_there_is_no_authorizer_but_for_api_keys(parameters: dict[str, str]) -> None:
    made = stack(**parameters)
    assert not [name for name in made.resources if "Authorizer" in name]
    for name in ("HttpApi", "RelayApi"):
        if name in made.resources:
            assert "api-key" not in made.properties(name)["Body"]["components"]["securitySchemes"]


def test_a_preflight_reaches_no_function() -> None:
    """API Gateway answers it where no route takes OPTIONS, which `ANY` and `$default` would."""
    body = stack(CorsOrigins="https://a.example,https://b.example").properties("HttpApi")["Body"]
    assert {method for methods in body["paths"].values() for method in methods} == {"get", "post"}
    cors = body["x-amazon-apigateway-cors"]
    assert cors["allowOrigins"] == ["https://a.example", "https://b.example"]
    assert {"GET", "POST"} == set(cors["allowMethods"])
    assert "authorization" in cors["allowHeaders"]


def test_there_is_no_cors_unless_it_is_wanted() -> None:
    assert "x-amazon-apigateway-cors" not in stack().properties("HttpApi")["Body"]
    assert "Cors" not in stack(**FUNCTION_URL).properties("RelayUrl")
    allowed = stack(**FUNCTION_URL, CorsOrigins="https://a.example").properties("RelayUrl")["Cors"]
    assert allowed["AllowOrigins"] == ["https://a.example"]


# --- the front doors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "front_doors"),
    [
        ({}, []),
        (FUNCTION_URL, ["AWS::Lambda::Url"]),
        (REST_API, ["AWS::ApiGateway::RestApi", "AWS::Lambda::Permission"]),
        (
            {**OPEN, **FUNCTION_URL},
            ["AWS::Lambda::Permission", "AWS::Lambda::Permission", "AWS::Lambda::Url"],
        ),
    ],
)
def test_the_relay_has_the_front_door_that_is_wanted(
    parameters: dict[str, str], front_doors: list[str]
) -> None:
    made = stack(**parameters)
    without = stack(**{**parameters, "Relay": "off"}).resources
    added = [each["Type"] for name, each in made.resources.items() if name not in without]
    kinds = ("AWS::Lambda::Url", "AWS::ApiGateway::RestApi", "AWS::Lambda::Permission")
    assert sorted(each for each in added if each in kinds) == front_doors
    assert ("RelayFunction" in made.resources) == ("RelayUrl" in made.outputs) == bool(front_doors)


def test_the_relay_asks_from_the_network_that_it_is_given() -> None:
    made = stack(**REST_API, **NETWORK)
    assert made.properties("RelayFunction")["VpcConfig"] == {
        "SubnetIds": ["subnet-0a1b2c3d", "subnet-0a1b2c3d4e5f60718"],
        "SecurityGroupIds": ["sg-4e5f6071"],
    }
    functions = made.of_type("AWS::Lambda::Function")
    assert [name for name, each in functions.items() if "VpcConfig" in each] == ["RelayFunction"]
    assert "VpcConfig" not in stack(**REST_API).properties("RelayFunction")


@pytest.mark.parametrize(
    ("parameters", "security"),
    [(REST_API, [{"AWS_IAM": []}]), ({**API_KEY, **REST_API}, [{"api-key": []}]), ({**OPEN, **REST_API}, [])],
)
def test_the_rest_api_asks_for_what_was_chosen(
    parameters: dict[str, str], security: list[dict[str, Any]]
) -> None:
    ((_, route, _),) = routes(stack(**parameters).properties("RelayApi")["Body"])
    assert route["security"] == security


def test_another_authorization_is_deployed() -> None:
    """SAM would not see it in the text of the template, and what is deployed would stay open."""
    assert read(ROOT / "template.yaml")["Resources"]["RelayApi"]["Properties"]["AlwaysDeploy"] is True


@pytest.mark.parametrize(("parameters", "kind"), [({}, "AWS_IAM"), (OPEN, "NONE")])
def test_the_function_url_streams_and_is_open_only_to_everyone(parameters: dict[str, str], kind: str) -> None:
    made = stack(**parameters, **FUNCTION_URL)
    url = made.properties("RelayUrl")
    assert (url["InvokeMode"], url["Qualifier"], url["AuthType"]) == ("RESPONSE_STREAM", "live", kind)
    public = [each for each in permissions(made) if each["Principal"] == "*"]
    assert [each["Action"] for each in public] == (
        ["lambda:InvokeFunctionUrl", "lambda:InvokeFunction"] if parameters else []
    )


def test_the_rest_api_streams_for_as_long_as_the_function_runs() -> None:
    made = stack(**REST_API)
    ((_, _, integration),) = routes(made.properties("RelayApi")["Body"])
    assert integration["responseTransferMode"] == "STREAM"
    assert integration["uri"] == (
        f"arn:aws:apigateway:{REGION}:lambda:path/2021-11-15/functions/"
        f"arn:aws:lambda:{REGION}:123456789012:function:${{RelayFunction}}:live/response-streaming-invocations"
    )
    assert integration["timeoutInMillis"] == 1000 * made.properties("RelayFunction")["Timeout"]


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("ACCESS_DENIED", *FORBIDDEN),
        ("API_CONFIGURATION_ERROR", InternalError.status, InternalError.type),
        ("AUTHORIZER_CONFIGURATION_ERROR", InternalError.status, InternalError.type),
        ("AUTHORIZER_FAILURE", InternalError.status, InternalError.type),
        ("EXPIRED_TOKEN", *FORBIDDEN),
        ("INTEGRATION_FAILURE", GatewayTimeout.status, GatewayTimeout.type),
        ("INTEGRATION_TIMEOUT", GatewayTimeout.status, GatewayTimeout.type),
        ("INVALID_SIGNATURE", *FORBIDDEN),
        ("MISSING_AUTHENTICATION_TOKEN", *FORBIDDEN),
        ("REQUEST_TOO_LARGE", RequestTooLarge.status, RequestTooLarge.type),
        ("THROTTLED", 429, UpstreamRefusal.TYPES[429]),  # type: ignore[index]
        ("UNAUTHORIZED", 401, "UnauthorizedError"),
        ("WAF_FILTERED", *FORBIDDEN),
        ("DEFAULT_4XX", BadRequest.status, BadRequest.type),
        ("DEFAULT_5XX", InternalError.status, InternalError.type),
    ],
)
def test_api_gateways_own_errors_are_in_the_envelope(kind: str, status: int, error: str) -> None:
    responses = stack(**REST_API).properties("RelayApi")["Body"]["x-amazon-apigateway-gateway-responses"]
    assert responses[kind]["statusCode"] == status
    # As API Gateway fills it in: with the message in quotes.
    text = responses[kind]["responseTemplates"]["application/json"]
    envelope = json.loads(text.replace("$context.error.messageString", '"why"'))
    message = envelope["error"].pop("message")
    assert message
    assert envelope == {"error": {"type": error, "param": None, "code": status}}


def test_who_is_throttled_is_told_to_wait() -> None:
    responses = stack(**REST_API).properties("RelayApi")["Body"]["x-amazon-apigateway-gateway-responses"]
    assert responses["THROTTLED"]["responseParameters"] == {"gatewayresponse.header.retry-after": "'1'"}


def test_both_apis_are_throttled() -> None:
    made = stack(**REST_API, ThrottlingRate="7", ThrottlingBurst="3")
    (http,) = made.of_type("AWS::ApiGatewayV2::Stage").values()
    (rest,) = made.of_type("AWS::ApiGateway::Stage").values()
    (settings,) = rest["MethodSettings"]
    assert (settings["HttpMethod"], settings["ResourcePath"]) == ("*", "/*")
    for each in (http["DefaultRouteSettings"], settings):
        assert (each["ThrottlingRateLimit"], each["ThrottlingBurstLimit"]) == ("7", "3")


def test_access_logs_say_what_happened_and_nothing_of_the_request() -> None:
    made = stack(**REST_API)
    formats = {
        made.of_type("AWS::ApiGatewayV2::Stage")["HttpApiApiGatewayDefaultStage"]["AccessLogSettings"][
            "Format"
        ],
        made.of_type("AWS::ApiGateway::Stage")["RelayApiprodStage"]["AccessLogSetting"]["Format"],
    }
    logged = [json.loads(each) for each in formats]
    assert [each.keys() for each in logged] == [logged[0].keys()] * 2
    assert {"request_id", "status", "latency_ms", "integration_error"} <= logged[0].keys()
    for each in itertools.chain(*(line.values() for line in logged)):
        assert re.fullmatch(r"\$context(\.[A-Za-z]+)+", each)
        assert not re.search(r"body|header|identity|querystring|claims|sourceIp", each, re.IGNORECASE)


# --- the functions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("architecture", "name"), [("x86_64", "X86"), ("arm64", "Arm64")])
def test_the_relay_runs_under_the_web_adapter(architecture: str, name: str) -> None:
    made = stack(
        Architecture=architecture, WebAdapterAccount="123456789012", WebAdapterVersion="7", **FUNCTION_URL
    )
    function = made.properties("RelayFunction")
    assert function["Architectures"] == [architecture]
    tokenizer, adapter = function["Layers"]
    assert [tokenizer] == made.properties("ApiFunction")["Layers"] == made.properties("BatchFunction")["Layers"]
    assert adapter == f"arn:aws:lambda:{REGION}:123456789012:layer:LambdaAdapterLayer{name}:7"
    variables = made.variables("RelayFunction")
    assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/bootstrap"
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"


def test_parameters_are_the_settings() -> None:
    of_all = {
        "LogLevel": "DERENDER_LOG_LEVEL",
        "Model": "DERENDER_MODEL",
        "ServedModelName": "DERENDER_SERVED_MODEL_NAME",
        "ToolCallParser": "DERENDER_TOOL_CALL_PARSER",
        "ReasoningParser": "DERENDER_REASONING_PARSER",
        "MaxBodyBytes": "DERENDER_MAX_BODY_BYTES",
        "StateKey": "DERENDER_STATE_KEY",
    }
    of_relay = {
        **of_all,
        "Upstreams": "DERENDER_UPSTREAMS",
        "RenderUrl": "DERENDER_RENDER_URL",
        "UpstreamTimeout": "DERENDER_UPSTREAM_TIMEOUT",
    }
    # ${TOKEN} is the relay's to fill in, not the template's.
    values = {parameter: f"{parameter} with ${{TOKEN}}" for parameter in of_relay}
    made = stack(Relay="rest-api", **values)
    for name, settings in (("ApiFunction", of_all), ("BatchFunction", of_all), ("RelayFunction", of_relay)):
        variables = {each: text for each, text in made.variables(name).items() if each.startswith("DERENDER_")}
        assert variables.pop("DERENDER_SERVICE") == "derender"
        assert variables == {setting: values[parameter] for parameter, setting in settings.items()}


@pytest.mark.parametrize(
    ("parameter", "function", "name"),
    [
        ("MemorySize", "ApiFunction", "MemorySize"),
        ("BatchMemorySize", "BatchFunction", "MemorySize"),
        ("RelayMemorySize", "RelayFunction", "MemorySize"),
        ("ReservedConcurrency", "ApiFunction", "ReservedConcurrentExecutions"),
        ("RelayReservedConcurrency", "RelayFunction", "ReservedConcurrentExecutions"),
    ],
)
def test_parameters_size_the_functions(parameter: str, function: str, name: str) -> None:
    assert stack(**FUNCTION_URL, **{parameter: "555"}).properties(function)[name] == "555"


def test_nothing_is_reserved_or_provisioned_unless_it_is_wanted() -> None:
    made = stack(**FUNCTION_URL)
    for name in VERSIONED:
        assert "ReservedConcurrentExecutions" not in made.properties(name)
        assert "ProvisionedConcurrencyConfig" not in made.properties(f"{name}Aliaslive")
    assert made.properties("ApiFunction")["SnapStart"] == {"ApplyOn": "None"}


def test_the_api_function_can_be_started_before_it_is_asked() -> None:
    alias = stack(ProvisionedConcurrency="5").properties("ApiFunctionAliaslive")
    assert alias["ProvisionedConcurrencyConfig"] == {"ProvisionedConcurrentExecutions": "5"}
    assert stack(SnapStart="on").properties("ApiFunction")["SnapStart"] == {"ApplyOn": "PublishedVersions"}


# --- versions -------------------------------------------------------------------------------------------------


def test_sam_sees_no_change_in_the_value_of_a_parameter() -> None:
    """Why there is a ConfigurationVersion: of another value alone SAM makes no other version."""
    template = read(ROOT / "template.yaml")
    one = translate(template, {})
    other = translate(template, {"MemorySize": "3000", "StateKey": "another key of the states", "Model": "m"})
    versions = [
        {name for name, each in made["Resources"].items() if each["Type"] == "AWS::Lambda::Version"}
        for made in (one, other)
    ]
    assert versions[0] == versions[1]
    # So parameters can be filled in after the translation.
    for name, each in one["Resources"].items():
        if each["Type"] != "AWS::ApiGateway::Stage":  # it names its deployment, which is another each time
            assert other["Resources"].get(name, each) == each


def test_each_parameter_that_a_version_has_makes_another_version() -> None:
    template = stack().template
    content = template["Resources"]["ConfigurationVersion"]["Properties"]["Content"]["Fn::Sub"]
    numbered = set(re.findall(r"\$\{([A-Za-z0-9:]+)\}", content))
    for name in VERSIONED:
        # Reserved concurrency is the function's, not a version's.
        properties = {**template["Resources"][name]["Properties"], "ReservedConcurrentExecutions": None}
        needed = references(properties, template) & (template["Parameters"].keys() | layers(template))
        assert needed <= numbered, needed - numbered
    assert numbered - layers(template) <= template["Parameters"].keys()


@pytest.mark.parametrize("name", VERSIONED)
def test_the_alias_moves_to_what_the_configuration_has_made(name: str) -> None:
    made = stack(**FUNCTION_URL)
    (version,) = (
        each
        for each, version in made.of_type("AWS::Lambda::Version").items()
        if version["FunctionName"] == f"${{{name}}}"
    )
    # A version is replaced when its description changes, and published anew if the function's has as well.
    assert made.properties(version)["Description"] == "Configuration ${ConfigurationVersion}."
    assert made.properties(name)["Description"].endswith(" Configuration ${ConfigurationVersion}.")
    assert made.properties(f"{name}Aliaslive")["FunctionVersion"] == f"${{{version}.Version}}"
    # What is under way goes on with the version that it began with.
    assert made.resources[version]["DeletionPolicy"] == "Retain"
    assert made.resources[version]["UpdateReplacePolicy"] == "Retain"


@pytest.mark.parametrize("preference", ["AllAtOnce", "Canary10Percent5Minutes", "Linear10PercentEvery1Minute"])
@pytest.mark.parametrize(
    ("name", "alarms"),
    [("ApiFunction", ["ApiVersionErrors", "ApiFaults"]), ("RelayFunction", ["RelayVersionErrors"])],
)
def test_codedeploy_moves_the_traffic_and_moves_it_back_on_alarms(
    preference: str, name: str, alarms: list[str]
) -> None:
    made = stack(**FUNCTION_URL, DeploymentPreference=preference)
    group = made.properties(f"{name}DeploymentGroup")
    assert group["DeploymentConfigName"] == f"CodeDeployDefault.Lambda{preference}"
    assert [each["Name"] for each in group["AlarmConfiguration"]["Alarms"]] == [
        f"${{{each}}}" for each in alarms
    ]
    assert group["AlarmConfiguration"]["Enabled"] is True
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    update = made.resources[f"{name}Aliaslive"]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
    assert update["DeploymentGroupName"] == f"${{{name}DeploymentGroup}}"


@pytest.mark.parametrize("name", ["Api", "Relay"])
def test_the_alarm_is_of_the_new_version(name: str) -> None:
    made = stack(**FUNCTION_URL)
    alarm = made.properties(f"{name}VersionErrors")
    expression, *metrics = alarm["Metrics"]
    assert expression["Expression"] == "100 * errors / invocations"
    function = f"${{{name}Function}}"
    version = made.properties(f"{name}FunctionAliaslive")["FunctionVersion"]
    for each in metrics:
        dimensions = {one["Name"]: one["Value"] for one in each["MetricStat"]["Metric"]["Dimensions"]}
        assert dimensions == {
            "FunctionName": function,
            "Resource": f"{function}:live",
            "ExecutedVersion": version,
        }
    assert alarm["TreatMissingData"] == "notBreaching"


# --- the nested stacks, and what can be pasted ----------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, REST_API, {"Batch": "off"}])
def test_nested_stacks_get_the_parameters_that_they_have(parameters: dict[str, str]) -> None:
    made = stack(**parameters)
    assert ("BatchWorkflow" in made.nested) == (parameters.get("Batch") != "off")
    for name, nested in made.nested.items():
        given = made.properties(name)["Parameters"]
        required = {each for each, one in nested.template["Parameters"].items() if "Default" not in one}
        assert required <= given.keys(), name
    watched = {made.nested[name].parameters["RelayFunctionName"] for name in ("Alarms", "Dashboard")}
    assert watched == {"${RelayFunction}" if "Relay" in parameters else ""}


def test_alarms_are_sent_to_the_topic() -> None:
    topic = f"arn:aws:sns:{REGION}:123456789012:alarms"
    for parameters, actions in (({}, None), ({"AlarmTopic": topic}, [topic])):
        for each in stack(**FUNCTION_URL, **parameters).walk():
            for name, alarm in each.of_type("AWS::CloudWatch::Alarm").items():
                # One is CodeDeploy's alone: of the same there is one for people.
                assert alarm.get("AlarmActions") == (actions if name != "ApiFaults" else None), name


@pytest.mark.parametrize(
    ("parameters", "header"),
    [({}, "x-amz-security-token: $AWS_SESSION_TOKEN"), (JWT, "authorization: Bearer $TOKEN"), (OPEN, None)],
)
def test_there_is_a_line_that_asks_the_api(parameters: dict[str, str], header: str | None) -> None:
    curl, *arguments, url = shlex.split(stack(**parameters).output("Curl"))
    assert (curl, url) == ("curl", "${HttpApi.ApiEndpoint}/v1/models")
    assert ([arguments[arguments.index("-H") + 1]] if header else arguments) == ([header] if header else [])
    assert ("--aws-sigv4" in arguments) == (not parameters)


@pytest.mark.parametrize(
    ("parameters", "bucket"), [({}, "${BatchBucketOfStack}"), ({"BatchBucket": "files"}, "files")]
)
def test_there_is_a_line_that_starts_a_batch(parameters: dict[str, str], bucket: str) -> None:
    made = stack(**parameters)
    assert made.output("BatchBucket") == bucket
    copy, start = made.output("BatchCommand").split(" && ")
    assert shlex.split(copy)[-1] == f"s3://{bucket}/input/"
    given = json.loads(shlex.split(start)[-1])
    assert given == {"input": f"s3://{bucket}/input/requests.jsonl", "output": f"s3://{bucket}/output/"}


@pytest.mark.parametrize(
    ("parameters", "url"),
    [
        (FUNCTION_URL, f"https://id.lambda-url.{REGION}.on.aws"),
        (REST_API, f"https://${{RelayApi}}.execute-api.{REGION}.amazonaws.com/prod"),
    ],
)
def test_there_is_the_relays_url(parameters: dict[str, str], url: str) -> None:
    assert stack(**parameters).output("RelayUrl") == url


# --- samconfig.toml -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", ["default", "prod"])
def test_configurations_are_of_the_template_and_of_no_account(environment: str) -> None:
    text = (ROOT / "samconfig.toml").read_text(encoding="utf-8")
    deploy = tomllib.loads(text)[environment]["deploy"]["parameters"]
    overrides = dict(each.split("=", 1) for each in deploy["parameter_overrides"])
    assert stack(**overrides).refusals == []
    for name, value in overrides.items():
        parameter = read(ROOT / "template.yaml")["Parameters"][name]
        assert not parameter.get("NoEcho"), name
        assert value in map(str, parameter.get("AllowedValues", [value])), name
    assert {"CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"} == set(deploy["capabilities"].split())
    assert deploy.get("confirm_changeset", False) == (environment == "prod")
    assert not re.search(r"\b[0-9]{12}\b|arn:|profile|region", text.partition("version =")[2])


def routes(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The routes of an API: name, route, integration."""
    for path, methods in body["paths"].items():
        for method, route in methods.items():
            yield f"{method} {path}", route, route["x-amazon-apigateway-integration"]


def permissions(made: Stack, function: str | None = None) -> list[dict[str, Any]]:
    """The permissions to invoke a function, or any."""
    found = made.of_type("AWS::Lambda::Permission").values()
    return [each for each in found if function in (None, each["FunctionName"])]


def references(value: Any, template: dict[str, Any]) -> set[str]:
    """What a value depends on, also by conditions."""
    match value:
        case {"Ref": str(name)}:
            return {name}
        case {"Fn::If": [condition, *values]}:
            return references(template["Conditions"][condition], template) | references(values, template)
        case {"Condition": str(name)} if len(value) == 1:
            return references(template["Conditions"][name], template)
        case {"Fn::Sub": str(text)}:
            return set(re.findall(r"\$\{([A-Za-z0-9:]+)\}", text))
        case {"Fn::Sub": [text, names]}:
            return references({"Fn::Sub": text}, template) | references(names, template)
        case dict():
            return set().union(*(references(each, template) for each in value.values()))
        case list():
            return set().union(*(references(each, template) for each in value))
    return set()


def layers(template: dict[str, Any]) -> set[str]:
    """The layers of a template, by their logical names."""
    found = template["Resources"].items()
    return {name for name, each in found if each["Type"] == "AWS::Lambda::LayerVersion"}
