"""Every stack that the parameters can make keeps to the policy, and each rule notices what breaks it."""

from __future__ import annotations

import copy
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from .policy import (
    EXEMPTIONS,
    RULES,
    allowed,
    buckets_are_private,
    entries_authenticate,
    functions_have_bounds,
    functions_have_least_privilege,
    key_encrypts_everything,
    logs_expire,
    permissions_are_specific,
    roles_are_explicit,
    secrets_stay_hidden,
)
from .stack import INFRA, REGION, Stack, read, stack

if TYPE_CHECKING:
    from .policy import Exemption, Rule

DIGEST: Final = "0123456789abcdef" * 4
KEY: Final = {"KmsKeyArn": f"arn:aws:kms:{REGION}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"}
SECRETS: Final = {
    "StateKey": "the key that signs states",
    "RenderUrl": "http://render.example:1234",
    "Upstreams": '{"gpu": {"url": "http://gpu.example", "headers": {"authorization": "Bearer hidden"}}}',
}
AUTHORIZATIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"Authorization": "jwt", "JwtIssuer": "https://id.example", "JwtAudience": "derender"},
    {"Authorization": "api-key", "ApiKeyDigests": DIGEST},
    {"Authorization": "open-to-everyone"},
)
NETWORK: Final = {
    "RelaySubnets": "subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718",
    "RelaySecurityGroups": "sg-4e5f6071",
}
RELAYS: Final = (
    {"Relay": "off"},
    {"Relay": "function-url"},
    {"Relay": "rest-api"},
    {"Relay": "rest-api", **NETWORK},
)
BATCHES: Final[tuple[dict[str, str], ...]] = ({}, {"Batch": "off"}, {"BatchBucket": "files"})
KEYS: Final[tuple[dict[str, str], ...]] = ({}, KEY)
TRACES: Final = ({"Tracing": "on"}, {"Tracing": "off"})
CORS: Final[tuple[dict[str, str], ...]] = ({}, {"CorsOrigins": "https://a.example"})
MOST: Final = {**SECRETS, **KEY, **AUTHORIZATIONS[2], "Relay": "rest-api", **NETWORK}
"""Parameters that make nearly every resource."""
FUNCTION_URL: Final = {
    "Relay": "function-url",
    "Authorization": "iam",
    "ApiKeyDigests": "none",
} | dict.fromkeys(NETWORK, "")
REMOVED: Final = object()


@cache
def stacks() -> list[Stack]:
    """Return every different stack and nested stack that parameters make, and the account's."""
    made = [
        stack(**SECRETS, **dict(pair for each in chosen for pair in each.items()))
        for chosen in product(AUTHORIZATIONS, RELAYS, BATCHES, KEYS, TRACES, CORS)
    ]
    account = Stack(read(INFRA / "account.yaml"), {})
    # Nested stacks with the same parameters are the same object.
    return [*{id(each): each for one in [account, *made] if not one.refusals for each in one.walk()}.values()]


def test_stacks_cover_the_combinations() -> None:
    assert len(stacks()) > 300
    kinds = {each["Type"] for one in stacks() for each in one.resources.values()}
    assert {"AWS::StepFunctions::StateMachine", "AWS::S3::BucketPolicy", "AWS::Lambda::Url"} <= kinds


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_stack_keeps_to(rule: Rule) -> None:
    assert {violation for each in stacks() for violation in rule(each)} == set()


@pytest.mark.parametrize("exemption", EXEMPTIONS, ids=lambda each: min(each.actions))
def test_every_exemption_is_needed(exemption: Exemption) -> None:
    needed = [
        each
        for made in stacks()
        for each in allowed(made)
        if "*" in each.resource and each.falls_under(exemption)
    ]
    assert {each.action for each in needed} == exemption.actions
    assert {each.service.removesuffix(".amazonaws.com") for each in needed} == exemption.services
    assert exemption.reason


LOG: Final = "Properties.Policies.0.PolicyDocument.Statement.0"
FILES: Final = "BatchRole.Properties.Policies.2.PolicyDocument.Statement"
CONNECT: Final = "RelayRole.Properties.Policies.2.Fn::If.1.PolicyDocument.Statement"
BODY: Final = "HttpApi.Properties.Body"
ENCRYPTION: Final = (
    "Bucket.Properties.BucketEncryption.ServerSideEncryptionConfiguration.0.ServerSideEncryptionByDefault"
)
ROUTE: Final = "Api.Properties.Body.paths./{path+}.x-amazon-apigateway-any-method"
BROKEN: Final[dict[str, list[tuple[Rule, str, object]]]] = {
    "": [
        (permissions_are_specific, f"ApiRole.{LOG}.Action", "logs:*"),
        (permissions_are_specific, f"ApiRole.{LOG}.Action", ["logs:PutLogEvents", "*"]),
        (permissions_are_specific, f"ApiRole.{LOG}.Resource", "*"),
        (permissions_are_specific, f"ApiRole.{LOG}.Resource", "arn:aws:logs:*:*:*"),
        (
            permissions_are_specific,
            f"DeploymentRole.{LOG}.Resource",
            "arn:aws:lambda:eu-central-1:123456789012:function:*",
        ),
        (
            roles_are_explicit,
            "ApiRole.Properties.ManagedPolicyArns",
            ["arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"],
        ),
        (roles_are_explicit, "ApiRole.Properties.AssumeRolePolicyDocument.Statement.0.Principal", {"AWS": "*"}),
        (
            roles_are_explicit,
            "ApiRole.Properties.AssumeRolePolicyDocument.Statement.0.Principal",
            {"Service": "lambda.amazonaws.com", "AWS": "123456789012"},
        ),
        (functions_have_bounds, "ApiFunction.Properties.Timeout", REMOVED),
        (functions_have_bounds, "AuthorizerFunction.Properties.TracingConfig", {"Mode": "PassThrough"}),
        (functions_have_bounds, "AuthorizerFunction.Properties.Role", {"Fn::GetAtt": ["ApiRole", "Arn"]}),
        (functions_have_bounds, "ApiFunction.Properties.Role", "arn:aws:iam::123456789012:role/other"),
        (functions_have_least_privilege, f"ApiRole.{LOG}.Action", ["logs:PutLogEvents", "s3:GetObject"]),
        (
            functions_have_least_privilege,
            f"ApiRole.{LOG}.Resource",
            {"Fn::GetAtt": ["AuthorizerLogGroup", "Arn"]},
        ),
        (
            functions_have_least_privilege,
            "ApiFunction.Properties.Role",
            {"Fn::GetAtt": ["DeploymentRole", "Arn"]},
        ),
        (logs_expire, "ApiLogGroup.Properties.RetentionInDays", REMOVED),
        (logs_expire, "ApiFunction.Properties.LoggingConfig", REMOVED),
        (logs_expire, "HttpApiApiGatewayDefaultStage.Properties.AccessLogSettings", REMOVED),
        (key_encrypts_everything, "ApiLogGroup.Properties.KmsKeyId", REMOVED),
        (key_encrypts_everything, "ApiFunction.Properties.KmsKeyArn", REMOVED),
        (key_encrypts_everything, "ConfigurationProfile.Properties.KmsKeyIdentifier", REMOVED),
        (entries_authenticate, f"{BODY}.paths./{{path+}}.get.security", []),
        (entries_authenticate, f"{BODY}.paths./{{path+}}.post.security", REMOVED),
        (entries_authenticate, f"{BODY}.paths./{{path+}}.post.security", [{"nothing": []}]),
        (entries_authenticate, f"{BODY}.paths./other", {"get": {}}),
        (entries_authenticate, f"{BODY}.components.securitySchemes.api-key", {"type": "apiKey"}),
        (entries_authenticate, f"{BODY}.paths./{{path+}}.options", {"security": [{"AWS_IAM": []}]}),
        (entries_authenticate, "ApiPermission.Properties.SourceArn", REMOVED),
        (entries_authenticate, "ApiPermission.Properties.Principal", "*"),
        (
            entries_authenticate,
            "Url",
            {"Type": "AWS::Lambda::Url", "Properties": {"AuthType": "NONE"}},
        ),
        (entries_authenticate, "Route", {"Type": "AWS::ApiGatewayV2::Route", "Properties": {}}),
        (secrets_stay_hidden, "ApiFunction.Properties.Description", {"Ref": "StateKey"}),
        (
            secrets_stay_hidden,
            "ApiFunction.Properties.Tags",
            [{"Key": "upstreams", "Value": {"Fn::Sub": "${Upstreams}"}}],
        ),
        (secrets_stay_hidden, "ApiLogGroup.Properties.LogGroupName", {"Ref": "RenderUrl"}),
        (secrets_stay_hidden, "Alarms.Properties.Parameters.Service", {"Ref": "ApiKeyDigests"}),
        (secrets_stay_hidden, "RelayStack.Properties.Parameters.Subnets", {"Ref": "Upstreams"}),
    ],
    "BatchStack": [
        (permissions_are_specific, f"{FILES}.0.Resource", ["arn:aws:s3:::files/*"]),
        (permissions_are_specific, f"{FILES}.1.Resource", "arn:aws:s3:::files/input/*"),
        (permissions_are_specific, f"StateMachineRole.{LOG}.Resource", "*"),
        (
            roles_are_explicit,
            "StateMachineRole.Properties.ManagedPolicyArns",
            ["arn:aws:iam::aws:policy/ReadOnlyAccess"],
        ),
        (functions_have_bounds, "BatchFunction.Properties.TracingConfig", REMOVED),
        (functions_have_least_privilege, f"{FILES}.1.Action", ["s3:PutObject", "s3:DeleteObject"]),
        (logs_expire, "BatchFunction.Properties.LoggingConfig.LogGroup", "/aws/lambda/other"),
        (logs_expire, "StateMachineLogGroup.Properties.RetentionInDays", REMOVED),
        (logs_expire, "StateMachine.Properties.LoggingConfiguration", REMOVED),
        (key_encrypts_everything, "Bucket.Properties.BucketEncryption", REMOVED),
        (key_encrypts_everything, f"{ENCRYPTION}.KMSMasterKeyID", REMOVED),
        (key_encrypts_everything, f"{ENCRYPTION}.SSEAlgorithm", "AES256"),
        (key_encrypts_everything, "StateMachine.Properties.EncryptionConfiguration", REMOVED),
        (key_encrypts_everything, "StateMachineLogGroup.Properties.KmsKeyId", REMOVED),
        (buckets_are_private, "Bucket.Properties.PublicAccessBlockConfiguration", REMOVED),
        (buckets_are_private, "Bucket.Properties.PublicAccessBlockConfiguration.BlockPublicAcls", False),
        (buckets_are_private, "Bucket.Properties.OwnershipControls", REMOVED),
        (buckets_are_private, "Bucket.Properties.LifecycleConfiguration", REMOVED),
        (buckets_are_private, "Bucket.DeletionPolicy", REMOVED),
        (buckets_are_private, "Bucket.UpdateReplacePolicy", "Delete"),
        (buckets_are_private, "BucketPolicy", REMOVED),
        (
            buckets_are_private,
            "BucketPolicy.Properties.PolicyDocument.Statement.0.Condition",
            {"Bool": {"aws:SecureTransport": "true"}},
        ),
        (
            buckets_are_private,
            "BucketPolicy.Properties.PolicyDocument.Statement.0.Resource",
            [{"Fn::GetAtt": ["Bucket", "Arn"]}],
        ),
    ],
    "RelayStack": [
        (functions_have_bounds, "RelayFunction.Properties.MemorySize", REMOVED),
        (functions_have_least_privilege, f"{CONNECT}.1.Effect", "Allow"),
        (functions_have_least_privilege, f"{CONNECT}.1.Action", "ec2:CreateNetworkInterface"),
        (functions_have_least_privilege, f"{CONNECT}.1.Condition", {"Null": {"aws:SourceArn": "false"}}),
        (functions_have_least_privilege, "RelayFunction.Properties.VpcConfig", REMOVED),
        (secrets_stay_hidden, "RelayFunction.Properties.Description", {"Ref": "Upstreams"}),
        (secrets_stay_hidden, "Url.Properties.Parameters.CorsOrigins", {"Ref": "RenderUrl"}),
    ],
    "RelayStack.Api": [
        (logs_expire, "ApiprodStage.Properties.AccessLogSetting", REMOVED),
        (key_encrypts_everything, "AccessLogGroup.Properties.KmsKeyId", REMOVED),
        (entries_authenticate, f"{ROUTE}.security", {"Fn::If": ["IsOpen", [], []]}),
        (entries_authenticate, ROUTE.replace("x-amazon-apigateway-any-method", "options"), {"security": []}),
        (entries_authenticate, "Permission.Properties.SourceArn", REMOVED),
    ],
    "RelayStack.Url": [
        (entries_authenticate, "Url.Properties.AuthType", "NONE"),
        (entries_authenticate, "UrlPermission.Condition", REMOVED),
        (entries_authenticate, "InvokePermission.Condition", REMOVED),
    ],
}
"""Path of a stack → rule, place of a change, and the value there that breaks the rule."""


@pytest.mark.parametrize(
    ("path", "rule", "place", "value"), [(path, *each) for path, changes in BROKEN.items() for each in changes]
)
def test_rules_notice_a_broken_template(path: str, rule: Rule, place: str, value: object) -> None:
    parameters = {**MOST, **FUNCTION_URL} if path.endswith("Url") or place.startswith("Url.") else MOST
    made = stack(**parameters)
    for name in filter(None, path.split(".")):
        made = made.nested[name]
    assert list(rule(made)) == []
    template = changed(made.template, f"Resources.{place}", value)
    assert list(rule(Stack(template, made.parameters, made.name, made.folder)))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("Parameters.StateKey.NoEcho", False),
        ("Parameters.ApiKeyDigests.NoEcho", REMOVED),
        ("Outputs.Key", {"Value": {"Ref": "StateKey"}}),
        ("Outputs.Curl.Value", {"Fn::Sub": "curl ${RenderUrl}"}),
    ],
)
def test_rules_notice_a_secret_that_is_told(place: str, value: object) -> None:
    assert list(secrets_stay_hidden(Stack(changed(stack(**MOST).template, place, value), MOST)))


@pytest.mark.parametrize("name", ["StateKey", "Upstreams", "RenderUrl"])
def test_rules_notice_a_secret_that_a_nested_stack_echoes(name: str) -> None:
    relay = stack(**MOST).nested["RelayStack"]
    template = changed(relay.template, f"Parameters.{name}.NoEcho", REMOVED)
    assert list(secrets_stay_hidden(Stack(template, relay.parameters, relay.name, relay.folder)))


def changed(template: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """Return a copy of a template with one change."""
    other = copy.deepcopy(template)
    at: Any = other
    *way, last = place.split(".")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if value is REMOVED:
        del at[last]
    else:
        at[last] = value
    return other
