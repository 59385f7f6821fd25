"""The policy that every stack keeps to. Each rule yields what violates it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .stack import Stack

    Rule = Callable[[Stack], Iterator[str]]

__all__ = ["EXEMPTIONS", "RULES", "Exemption", "allowed"]

EXECUTION: Final = r"arn:aws:states:eu-central-1:123456789012:execution:derender-batch"


class Exemption(NamedTuple):
    """A permission whose resource needs a `*`."""

    services: frozenset[str]
    """Services whose roles may have it."""
    actions: frozenset[str]
    resource: str
    """Pattern of the whole resource."""
    reason: str


def _exempt(services: str, actions: str, resource: str, reason: str) -> Exemption:
    return Exemption(frozenset(services.split()), frozenset(actions.split()), resource, reason)


OF_NETWORKS: Final = (
    "ec2:AssignPrivateIpAddresses ec2:CreateNetworkInterface ec2:DeleteNetworkInterface"
    " ec2:DescribeNetworkInterfaces ec2:DescribeSubnets ec2:UnassignPrivateIpAddresses"
)
"""Actions with which Lambda connects a function to a VPC."""
EXEMPTIONS: Final = (
    _exempt(
        "lambda states",
        "xray:PutTraceSegments xray:PutTelemetryRecords",
        r"\*",
        "IAM defines no X-Ray resources for these actions.",
    ),
    _exempt(
        "states",
        "xray:GetSamplingRules xray:GetSamplingTargets",
        r"\*",
        "IAM defines no X-Ray resources for these actions.",
    ),
    _exempt(
        "codedeploy",
        "cloudwatch:DescribeAlarms",
        r"\*",
        "CloudWatch describes composite alarms only to those who may describe all alarms.",
    ),
    _exempt(
        "codedeploy",
        "lambda:GetAlias lambda:UpdateAlias lambda:GetProvisionedConcurrencyConfig",
        r"\$\{(Api|Relay)Function\.Arn\}:\*",
        "Each deployment publishes another version.",
    ),
    _exempt(
        "states",
        "logs:CreateLogDelivery logs:GetLogDelivery logs:UpdateLogDelivery logs:DeleteLogDelivery"
        " logs:ListLogDeliveries logs:PutResourcePolicy logs:DescribeResourcePolicies logs:DescribeLogGroups",
        r"\*",
        "A policy of the account delivers the logs of Step Functions. IAM defines no resources for it.",
    ),
    _exempt(
        "apigateway",
        "logs:CreateLogGroup logs:CreateLogStream logs:DescribeLogGroups logs:DescribeLogStreams"
        " logs:PutLogEvents logs:GetLogEvents logs:FilterLogEvents",
        r"\*",
        "API Gateway refuses a role for the logs of REST APIs that allows less.",
    ),
    _exempt(
        "states",
        "lambda:InvokeFunction",
        r"\$\{BatchFunction\.Arn\}:\*",
        "A job ends with the version it began with, which may be any.",
    ),
    _exempt(
        "states",
        "states:DescribeExecution states:StopExecution",
        rf"{EXECUTION}(/parts)?:\*",
        "Executions get their names when they start.",
    ),
    _exempt(
        "states",
        "states:RedriveExecution",
        rf"{EXECUTION}/parts:\*",
        "Executions get their names when they start.",
    ),
    _exempt(
        "lambda",
        OF_NETWORKS,
        r"\*",
        "Lambda names network interfaces, and subnets may belong to other accounts. Code is denied all of it.",
    ),
    _exempt(
        "lambda",
        "s3:GetObject",
        r"arn:aws:s3:::[^/*]+/(input|output)/\*",
        "Users name the objects.",
    ),
    _exempt(
        "lambda",
        "s3:PutObject s3:AbortMultipartUpload",
        r"arn:aws:s3:::[^/*]+/output/\*",
        "Objects have the names of jobs.",
    ),
)
"""All exemptions. A test removes those that no stack needs."""

OF_ALL: Final = frozenset(
    {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTelemetryRecords", "xray:PutTraceSegments"}
)
OF_FUNCTIONS: Final[Mapping[str, frozenset[str]]] = {
    "ApiFunction": OF_ALL,
    "AuthorizerFunction": OF_ALL,
    "RelayFunction": OF_ALL | {*OF_NETWORKS.split()},
    "BatchFunction": OF_ALL
    | {
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "s3:AbortMultipartUpload",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
    },
}
"""Function → the most that its role may allow."""
SECRET: Final = re.compile(r"secret|password|token|credential|digest|key|upstreams|url", re.IGNORECASE)
"""Names of parameters that CloudFormation must not echo."""
NO_SECRETS: Final = frozenset({"KmsKeyArn", "TokenizerLayer"})
"""Exceptions to it."""


class Permission(NamedTuple):
    """An action that a role allows a service."""

    role: str
    service: str
    action: str
    resource: str

    def falls_under(self, exemption: Exemption) -> bool:
        """Return whether an exemption covers it."""
        return (
            self.service.removesuffix(".amazonaws.com") in exemption.services
            and self.action in exemption.actions
            and re.fullmatch(exemption.resource, self.resource) is not None
        )


def allowed(stack: Stack) -> Iterator[Permission]:
    """Yield each permission of a stack."""
    for name, role in stack.of_type("AWS::IAM::Role").items():
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        for policy in role.get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                if statement["Effect"] == "Allow":
                    for action in _listed(statement["Action"]):
                        for resource in _listed(statement["Resource"]):
                            yield Permission(name, trust["Principal"].get("Service", ""), action, resource)


def permissions_are_specific(stack: Stack) -> Iterator[str]:
    """Permissions name their actions and resources without `*`, except for the exemptions."""
    for each in allowed(stack):
        if "*" in each.action:
            yield f"{each.role} allows {each.action}"
        if "*" in each.resource and not any(map(each.falls_under, EXEMPTIONS)):
            yield f"{each.role} allows {each.action} of {each.resource}"


def roles_are_explicit(stack: Stack) -> Iterator[str]:
    """Roles have no managed policies, and exactly one service may assume each."""
    for name, role in stack.of_type("AWS::IAM::Role").items():
        if "ManagedPolicyArns" in role:
            yield f"{name} has managed policies"
        for statement in role["AssumeRolePolicyDocument"]["Statement"]:
            principal = statement["Principal"]
            if principal.keys() != {"Service"} or not isinstance(principal["Service"], str):
                yield f"{name} may be assumed by {principal}"


def functions_have_bounds(stack: Stack) -> Iterator[str]:
    """Functions have a timeout, memory, the chosen tracing and a role of their own."""
    functions = stack.of_type("AWS::Lambda::Function")
    traces = "Active" if stack.parameters.get("Tracing") == "on" else "PassThrough"
    for name, function in functions.items():
        for needed in ("Timeout", "MemorySize"):
            if needed not in function:
                yield f"{name} has no {needed}"
        if function.get("TracingConfig") != {"Mode": traces}:
            yield f"{name} does not trace as chosen"
        if [each["Role"] for each in functions.values()].count(function["Role"]) > 1:
            yield f"{name} shares its role"
        if _role(function) not in stack.of_type("AWS::IAM::Role"):
            yield f"{name} has a role from outside the stack"


def functions_have_least_privilege(stack: Stack) -> Iterator[str]:
    """Functions write to their own log and send traces if chosen. Only batch reads and writes files."""
    for name, function in stack.of_type("AWS::Lambda::Function").items():
        log = f"{function.get('LoggingConfig', {}).get('LogGroup', '')[:-1]}.Arn}}"
        for each in allowed(stack):
            if each.role != _role(function):
                continue
            if each.action not in OF_FUNCTIONS[name]:
                yield f"{name} may {each.action}"
            if each.action.startswith("logs:") and each.resource != log:
                yield f"{name} may write to {each.resource}"
            if each.action.startswith("xray:") and stack.parameters.get("Tracing") != "on":
                yield f"{name} may send traces, although tracing is off"
            if each.action.startswith("ec2:"):
                if "VpcConfig" not in function:
                    yield f"{name} may {each.action}, although it is in no VPC"
                if each.action not in _denied_to_code(stack.properties(each.role)):
                    yield f"the code of {name} may {each.action}"


def logs_expire(stack: Stack) -> Iterator[str]:
    """Functions, APIs and state machines log to groups of their stack, which have a retention time."""
    groups = stack.of_type("AWS::Logs::LogGroup")
    for name, group in groups.items():
        if not group.get("RetentionInDays"):
            yield f"{name} keeps lines forever"
    destinations = {
        name: _at(each, *way)
        for kind, *way in (
            ("AWS::Lambda::Function", "LoggingConfig", "LogGroup"),
            ("AWS::ApiGateway::Stage", "AccessLogSetting", "DestinationArn"),
            ("AWS::ApiGatewayV2::Stage", "AccessLogSettings", "DestinationArn"),
            (
                "AWS::StepFunctions::StateMachine",
                "LoggingConfiguration",
                "Destinations",
                0,
                "CloudWatchLogsLogGroup",
                "LogGroupArn",
            ),
        )
        for name, each in stack.of_type(str(kind)).items()
    }
    for name, destination in destinations.items():
        if _logical_name(destination) not in groups:
            yield f"{name} logs to {destination}"


def key_encrypts_everything(stack: Stack) -> Iterator[str]:
    """A given key encrypts everything that takes one. Buckets are encrypted without one, too."""
    key = stack.parameters.get("KmsKeyArn") or None
    for kind, name_of_key in (
        ("AWS::Logs::LogGroup", "KmsKeyId"),
        ("AWS::Lambda::Function", "KmsKeyArn"),
        ("AWS::AppConfig::ConfigurationProfile", "KmsKeyIdentifier"),
    ):
        for name, each in stack.of_type(kind).items():
            if each.get(name_of_key) != key:
                yield f"{name} is not encrypted with {key or 'an AWS-owned key'}"
    for name, each in stack.of_type("AWS::StepFunctions::StateMachine").items():
        if each.get("EncryptionConfiguration", {}).get("KmsKeyId") != key:
            yield f"{name} is not encrypted with {key or 'an AWS-owned key'}"
    for name, each in stack.of_type("AWS::S3::Bucket").items():
        ((rule),) = each.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [{}])
        encryption = rule.get("ServerSideEncryptionByDefault", {})
        if encryption.get("SSEAlgorithm") != ("aws:kms" if key else "AES256"):
            yield f"{name} is encrypted by {encryption}"
        if encryption.get("KMSMasterKeyID") != key:
            yield f"{name} is not encrypted with {key or 'an AWS-owned key'}"


def entries_authenticate(stack: Stack) -> Iterator[str]:
    """Each way in authenticates its callers, unless Authorization is open-to-everyone."""
    is_open = stack.parameters.get("Authorization") == "open-to-everyone"
    for kind in ("AWS::ApiGatewayV2::Api", "AWS::ApiGateway::RestApi"):
        for name, api in stack.of_type(kind).items():
            schemes = api["Body"].get("components", {}).get("securitySchemes", {})
            for path, methods in api["Body"]["paths"].items():
                for method, route in methods.items():
                    if method == "options" and kind == "AWS::ApiGateway::RestApi":
                        # Browsers send no credentials with preflight requests.
                        if not stack.parameters.get("CorsOrigins"):
                            yield f"{name} takes preflight requests at {path}"
                        continue
                    asked = [each for one in route.get("security", []) for each in one]
                    if not is_open and not (
                        asked and all(_authenticates(schemes.get(each, {})) for each in asked)
                    ):
                        yield f"{name} is open at {method} {path}"
                    if method in ("options", "x-amazon-apigateway-any-method") and kind.endswith("V2::Api"):
                        yield f"{name} takes preflight requests at {path}"
    for name, url in stack.of_type("AWS::Lambda::Url").items():
        if not is_open and url["AuthType"] != "AWS_IAM":
            yield f"{name} is open"
    for name, permission in stack.of_type("AWS::Lambda::Permission").items():
        if permission["Principal"] == "*":
            by_url = permission.get("FunctionUrlAuthType") == "NONE" or permission.get("InvokedViaFunctionUrl")
            if not (is_open and by_url):
                yield f"{name} permits everyone"
        elif "SourceArn" not in permission:
            yield f"{name} permits any {permission['Principal']}"
    for kind in ("AWS::ApiGatewayV2::Route", "AWS::ApiGateway::Method"):
        yield from (f"{name} is a route outside of the document" for name in stack.of_type(kind))


def secrets_stay_hidden(stack: Stack) -> Iterator[str]:
    """Hidden parameters reach only environment variables, the configuration and hidden nested parameters."""
    hidden = _hidden(stack)
    for name in stack.parameters:
        if SECRET.search(name) and name not in hidden | NO_SECRETS:
            yield f"{name} is echoed"
    values = {stack.parameters[name]: name for name in hidden if stack.parameters[name]}
    for place, text in _texts({"resources": stack.resources, "outputs": stack.outputs}):
        if re.fullmatch(r"resources\.\w+\.Properties\.(Environment\.Variables\.\w+|Content)", place):
            continue
        given = re.fullmatch(r"resources\.(\w+)\.Properties\.Parameters\.(\w+)", place)
        if given and given[1] in stack.nested and given[2] in _hidden(stack.nested[given[1]]):
            continue
        yield from (f"{place} tells {name}" for value, name in values.items() if value in text)


def _hidden(stack: Stack) -> set[str]:
    parameters = stack.template.get("Parameters", {})
    return {name for name, each in parameters.items() if each.get("NoEcho")}


def buckets_are_private(stack: Stack) -> Iterator[str]:
    """Buckets are private and encrypted in transit, expire their files and outlive the stack."""
    policies = {each["Bucket"]: each for each in stack.of_type("AWS::S3::BucketPolicy").values()}
    for name, bucket in stack.of_type("AWS::S3::Bucket").items():
        blocks = bucket.get("PublicAccessBlockConfiguration", {})
        if not (len(blocks) == 4 and all(blocks.values())):
            yield f"{name} may be public"
        if bucket.get("OwnershipControls") != {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}:
            yield f"{name} has access lists"
        if not any(
            rule["Status"] == "Enabled" and "ExpirationInDays" in rule and "Prefix" not in rule
            for rule in bucket.get("LifecycleConfiguration", {}).get("Rules", [])
        ):
            yield f"{name} keeps files forever"
        resource = stack.resources[name]
        if {resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")} != {"Retain"}:
            yield f"the stack deletes {name}"
        statements = policies.get(f"${{{name}}}", {}).get("PolicyDocument", {}).get("Statement", [])
        if not any(_denies_http(each, f"${{{name}.Arn}}") for each in statements):
            yield f"{name} accepts plain HTTP"


RULES: Final[tuple[Rule, ...]] = (
    permissions_are_specific,
    roles_are_explicit,
    functions_have_bounds,
    functions_have_least_privilege,
    logs_expire,
    key_encrypts_everything,
    entries_authenticate,
    secrets_stay_hidden,
    buckets_are_private,
)


def _denied_to_code(role: Mapping[str, Any]) -> set[str]:
    """Return the actions of a role that are denied to code, whose requests name the function."""
    return {
        action
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if (statement["Effect"], statement["Resource"]) == ("Deny", "*")
        and statement["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}
        for action in _listed(statement["Action"])
    }


def _at(value: Any, *way: str | int) -> Any:
    """Return what is at a path in a value, or None."""
    for step in way:
        try:
            value = value[step]
        except (KeyError, IndexError):
            return None
    return value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _role(function: Mapping[str, Any]) -> str | None:
    return _logical_name(function["Role"])


def _logical_name(reference: str | None) -> str | None:
    """Return the resource that a reference names."""
    found = re.fullmatch(r"\$\{(\w+)(?:\.\w+)?\}", reference or "")
    return found[1] if found else None


def _authenticates(scheme: Mapping[str, Any]) -> bool:
    """Return whether API Gateway demands a signature or something for an authorizer."""
    authorizer = scheme.get("x-amazon-apigateway-authorizer", {})
    return scheme.get("x-amazon-apigateway-authtype") == "awsSigv4" or (
        authorizer.get("type") in ("jwt", "request") and bool(authorizer.get("identitySource"))
    )


def _denies_http(statement: Mapping[str, Any], bucket: str) -> bool:
    return (
        statement["Effect"] == "Deny"
        and statement["Principal"] == "*"
        and statement["Action"] == "s3:*"
        and set(statement["Resource"]) == {bucket, f"{bucket}/*"}
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    )


def _texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and content of each text."""
    match value:
        case str():
            yield place, value
        case dict():
            for name, each in value.items():
                yield from _texts(each, f"{place}.{name}" if place else name)
        case list():
            for index, each in enumerate(value):
                yield from _texts(each, f"{place}.{index}")
