"""The relay's stacks: its function, the function URL and the REST API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derender.errors import BadRequest, GatewayTimeout, InternalError, RequestTooLarge, UpstreamRefusal

from .documents import access_log, permissions, routes
from .parameters import API_KEY, FUNCTION_URL, NETWORK, OPEN, REST_API
from .stack import ACCOUNT, INFRA, REGION, Stack, read, stack

FORBIDDEN = (403, "ForbiddenError")
"""Status and type of an error that the application would name the same."""


def relay(**parameters: str) -> Stack:
    """The relay's stack."""
    return stack(**parameters).nested["RelayStack"]


def rest_api(**parameters: str) -> Stack:
    """The stack of the relay's REST API."""
    return relay(**REST_API, **parameters).nested["Api"]


def function_url(**parameters: str) -> Stack:
    """The stack of the relay's function URL."""
    return relay(**FUNCTION_URL, **parameters).nested["Url"]


def test_there_is_no_relay_unless_chosen() -> None:
    made = stack()
    assert "RelayStack" not in made.nested
    assert not {"RelayUrl", "RelayFunctionName"} & made.outputs.keys()


@pytest.mark.parametrize(
    ("parameters", "door", "kinds"),
    [
        (FUNCTION_URL, "Url", ["AWS::Lambda::Url"]),
        ({**OPEN, **FUNCTION_URL}, "Url", ["AWS::Lambda::Permission"] * 2 + ["AWS::Lambda::Url"]),
        (REST_API, "Api", ["AWS::ApiGateway::RestApi", "AWS::Lambda::Permission"]),
    ],
)
def test_the_relay_has_the_chosen_front_door(parameters: dict[str, str], door: str, kinds: list[str]) -> None:
    made = stack(**parameters)
    assert made.output("RelayUrl") == "${RelayStack.Outputs.Url}"
    made = made.nested["RelayStack"]
    assert made.output("Url") == f"${{{door}.Outputs.Url}}"
    (name,) = made.nested
    assert name == door
    found = [each["Type"] for each in made.nested[door].resources.values()]
    entries = ("AWS::Lambda::Url", "AWS::ApiGateway::RestApi", "AWS::Lambda::Permission")
    assert sorted(each for each in found if each in entries) == kinds


def test_only_the_template_of_the_function_url_mentions_one() -> None:
    """Regions without function URLs refuse a template that has one, even if its condition is false."""
    for made in stack(**REST_API).walk():
        assert "AWS::Lambda::Url" not in json.dumps(made.template), made.name


# --- the function ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("architecture", "name"), [("x86_64", "X86"), ("arm64", "Arm64")])
def test_the_relay_runs_under_the_web_adapter(architecture: str, name: str) -> None:
    made = stack(Architecture=architecture, **FUNCTION_URL)
    function = made.nested["RelayStack"].properties("RelayFunction")
    assert function["Architectures"] == [architecture]
    tokenizer, adapter = function["Layers"]
    assert [tokenizer] == made.properties("ApiFunction")["Layers"]
    assert adapter == f"arn:aws:lambda:{REGION}:753240598075:layer:LambdaAdapterLayer{name}:30"
    variables = made.nested["RelayStack"].variables("RelayFunction")
    assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/bootstrap"
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"


def test_the_relay_is_in_the_given_network() -> None:
    made = stack(**REST_API, **NETWORK)
    functions = {
        name: each for one in made.walk() for name, each in one.of_type("AWS::Lambda::Function").items()
    }
    assert {name: each["VpcConfig"] for name, each in functions.items() if "VpcConfig" in each} == {
        "RelayFunction": {
            "SubnetIds": ["subnet-0a1b2c3d", "subnet-0a1b2c3d4e5f60718"],
            "SecurityGroupIds": ["sg-4e5f6071"],
        }
    }
    assert "VpcConfig" not in relay(**REST_API).properties("RelayFunction")


# --- the function URL -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parameters", "kind"), [({}, "AWS_IAM"), (OPEN, "NONE")])
def test_the_function_url_streams_and_is_open_only_if_chosen(parameters: dict[str, str], kind: str) -> None:
    made = function_url(**parameters)
    url = made.properties("Url")
    assert (url["TargetFunctionArn"], url["Qualifier"]) == ("${RelayFunction}", "live")
    assert (url["InvokeMode"], url["AuthType"]) == ("RESPONSE_STREAM", kind)
    public = [each for each in permissions(made) if each["Principal"] == "*"]
    assert [each["Action"] for each in public] == (
        ["lambda:InvokeFunctionUrl", "lambda:InvokeFunction"] if parameters else []
    )
    alias = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:${{RelayFunction}}:live"
    assert {each["FunctionName"] for each in public} <= {alias}
    assert made.output("Url") == f"https://id.lambda-url.{REGION}.on.aws"


def test_the_function_url_has_cors_if_chosen() -> None:
    assert "Cors" not in function_url().properties("Url")
    allowed = function_url(CorsOrigins="https://a.example").properties("Url")["Cors"]
    assert allowed["AllowOrigins"] == ["https://a.example"]


# --- the REST API ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "security"),
    [({}, [{"AWS_IAM": []}]), (API_KEY, [{"api-key": []}]), (OPEN, [])],
)
def test_the_rest_api_authenticates_as_chosen(
    parameters: dict[str, str], security: list[dict[str, Any]]
) -> None:
    made = rest_api(**parameters)
    body = made.properties("Api")["Body"]
    ((_, route, _),) = routes(body)
    assert route["security"] == security
    schemes = body["components"]["securitySchemes"]
    assert schemes["AWS_IAM"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    assert ("api-key" in schemes) == (parameters == API_KEY)


def test_the_authorizer_checks_api_keys_at_the_rest_api() -> None:
    made = rest_api(**API_KEY)
    scheme = made.properties("Api")["Body"]["components"]["securitySchemes"]["api-key"]
    assert scheme["x-amazon-apigateway-authtype"] == "custom"
    assert scheme["x-amazon-apigateway-authorizer"] == {
        "type": "request",
        "identitySource": "method.request.header.Authorization",
        "authorizerUri": (
            f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/"
            "${AuthorizerFunction.Arn}/invocations"
        ),
        "authorizerResultTtlInSeconds": 300,
    }
    (permission,) = permissions(made, "${AuthorizerFunction.Arn}")
    assert permission["SourceArn"].endswith("${Api}/authorizers/*")


def test_another_authorization_is_deployed() -> None:
    """SAM compares templates. A changed parameter alone would leave the deployed API as it is, perhaps open."""
    api = read(INFRA / "relay_api.yaml")["Resources"]["Api"]
    assert api["Properties"]["AlwaysDeploy"] is True


def test_the_rest_api_passes_preflight_requests_to_the_relay_if_cors_is_chosen() -> None:
    origins = {"CorsOrigins": "https://a.example,https://b.example"}
    ((name, preflight, relayed), (_, _, integration)) = routes(rest_api(**origins).properties("Api")["Body"])
    assert (name, preflight["security"], relayed) == ("options /{path+}", [], integration)
    variable = "DERENDER_ALLOWED_ORIGINS"
    assert relay(**REST_API, **origins).variables("RelayFunction")[variable] == origins["CorsOrigins"]
    # Browsers refuse two headers, and a function URL sends its own.
    assert relay(**FUNCTION_URL, **origins).variables("RelayFunction")[variable] == ""
    assert len([*routes(rest_api().properties("Api")["Body"])]) == 1


def test_the_rest_api_streams_for_as_long_as_the_function_runs() -> None:
    ((_, _, integration),) = routes(rest_api().properties("Api")["Body"])
    assert integration["responseTransferMode"] == "STREAM"
    assert integration["uri"] == (
        f"arn:aws:apigateway:{REGION}:lambda:path/2021-11-15/functions/"
        f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:${{RelayFunction}}:live/response-streaming-invocations"
    )
    assert integration["timeoutInMillis"] == 1000 * relay(**REST_API).properties("RelayFunction")["Timeout"]
    assert rest_api().output("Url") == f"https://${{Api}}.execute-api.{REGION}.amazonaws.com/prod"


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
        ("RESOURCE_NOT_FOUND", 404, "NotFoundError"),
        ("THROTTLED", 429, UpstreamRefusal.TYPES[429]),  # type: ignore[index]
        ("UNAUTHORIZED", 401, "UnauthorizedError"),
        ("UNSUPPORTED_MEDIA_TYPE", 415, "UnsupportedMediaTypeError"),
        ("WAF_FILTERED", *FORBIDDEN),
        ("DEFAULT_4XX", BadRequest.status, BadRequest.type),
        ("DEFAULT_5XX", InternalError.status, InternalError.type),
    ],
)
def test_api_gateways_own_errors_use_the_envelope(kind: str, status: int, error: str) -> None:
    response = rest_api().properties("Api")["Body"]["x-amazon-apigateway-gateway-responses"][kind]
    assert response["statusCode"] == status
    # API Gateway fills the message in with its quotes.
    text = response["responseTemplates"]["application/json"]
    envelope = json.loads(text.replace("$context.error.messageString", '"why"'))
    assert envelope["error"].pop("message")
    assert envelope == {"error": {"type": error, "param": None, "code": status}}
    assert response.get("responseParameters") == (
        {"gatewayresponse.header.retry-after": "'1'"} if kind == "THROTTLED" else None
    )


def test_the_rest_api_is_throttled() -> None:
    (stage,) = rest_api(ThrottlingRate="7").of_type("AWS::ApiGateway::Stage").values()
    assert stage["MethodSettings"] == [
        {"HttpMethod": "*", "ResourcePath": "/*", "ThrottlingRateLimit": "7", "ThrottlingBurstLimit": "7"}
    ]


def test_the_access_log_has_the_fields_of_the_http_apis() -> None:
    (stage,) = rest_api().of_type("AWS::ApiGateway::Stage").values()
    (other,) = stack().of_type("AWS::ApiGatewayV2::Stage").values()
    logged = access_log(stage["AccessLogSetting"]["Format"])
    assert logged.keys() == access_log(other["AccessLogSettings"]["Format"]).keys()
