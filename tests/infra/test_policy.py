"""Every stack that the parameters can make keeps to the policy, and each of its rules can be broken."""

from __future__ import annotations

import copy
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from .policy import (
    EXEMPTIONS,
    RULES,
    all_is_encrypted,
    allowed,
    buckets_are_private,
    functions_have_bounds,
    functions_may_do_no_more,
    logs_expire,
    nothing_is_open_by_accident,
    permissions_name_what_they_are_of,
    roles_are_written_out,
    secrets_are_not_told,
)
from .stack import REGION, ROOT, Stack, read, stack

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
"""Parameters that make nearly everything."""
REMOVED: Final = object()


@cache
def stacks() -> list[Stack]:
    """All stacks that are made, with those in them, and the one that is made once for an account."""
    made = [
        stack(**SECRETS, **dict(pair for each in chosen for pair in each.items()))
        for chosen in product(AUTHORIZATIONS, RELAYS, BATCHES, KEYS, TRACES, CORS)
    ]
    account = Stack(read(ROOT / "infra" / "account.yaml"), {})
    return [account, *(each for one in made if not one.refusals for each in one.walk())]


def test_many_stacks_are_looked_at() -> None:
    assert len(stacks()) > 500
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


STATEMENT: Final = "ApiRole.Properties.Policies.0.PolicyDocument.Statement.0"
FILES: Final = "BatchRole.Properties.Policies.2.PolicyDocument.Statement"
NETWORK_ACCESS: Final = "RelayRole.Properties.Policies.2.Fn::If.1.PolicyDocument.Statement"
BODY: Final = "HttpApi.Properties.Body"
BUCKET: Final = "BatchBucketOfStack"
ENCRYPTION: Final = (
    f"{BUCKET}.Properties.BucketEncryption.ServerSideEncryptionConfiguration.0.ServerSideEncryptionByDefault"
)


@pytest.mark.parametrize(
    ("rule", "place", "value"),
    [
        (permissions_name_what_they_are_of, f"{STATEMENT}.Action", "logs:*"),
        (permissions_name_what_they_are_of, f"{STATEMENT}.Action", ["logs:PutLogEvents", "*"]),
        (permissions_name_what_they_are_of, f"{STATEMENT}.Resource", "*"),
        (permissions_name_what_they_are_of, f"{STATEMENT}.Resource", "arn:aws:logs:*:*:*"),
        (permissions_name_what_they_are_of, f"{FILES}.0.Resource", ["arn:aws:s3:::files/*"]),
        (permissions_name_what_they_are_of, f"{FILES}.1.Resource", "arn:aws:s3:::files/input/*"),
        (
            permissions_name_what_they_are_of,
            "DeploymentRole.Properties.Policies.0.PolicyDocument.Statement.0.Resource",
            "arn:aws:lambda:eu-central-1:123456789012:function:*",
        ),
        (
            roles_are_written_out,
            "ApiRole.Properties.ManagedPolicyArns",
            ["arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"],
        ),
        (
            roles_are_written_out,
            "ApiRole.Properties.AssumeRolePolicyDocument.Statement.0.Principal",
            {"AWS": "*"},
        ),
        (
            roles_are_written_out,
            "ApiRole.Properties.AssumeRolePolicyDocument.Statement.0.Principal",
            {"Service": "lambda.amazonaws.com", "AWS": "123456789012"},
        ),
        (functions_have_bounds, "ApiFunction.Properties.Timeout", REMOVED),
        (functions_have_bounds, "RelayFunction.Properties.MemorySize", REMOVED),
        (functions_have_bounds, "BatchFunction.Properties.TracingConfig", REMOVED),
        (functions_have_bounds, "AuthorizerFunction.Properties.TracingConfig", {"Mode": "PassThrough"}),
        (functions_have_bounds, "RelayFunction.Properties.Role", {"Fn::GetAtt": ["ApiRole", "Arn"]}),
        (functions_have_bounds, "ApiFunction.Properties.Role", "arn:aws:iam::123456789012:role/other"),
        (functions_may_do_no_more, f"{STATEMENT}.Action", ["logs:PutLogEvents", "s3:GetObject"]),
        (functions_may_do_no_more, f"{STATEMENT}.Resource", {"Fn::GetAtt": ["BatchLogGroup", "Arn"]}),
        (functions_may_do_no_more, f"{FILES}.1.Action", ["s3:PutObject", "s3:DeleteObject"]),
        (functions_may_do_no_more, "ApiFunction.Properties.Role", {"Fn::GetAtt": ["BatchRole", "Arn"]}),
        (functions_may_do_no_more, f"{NETWORK_ACCESS}.1.Effect", "Allow"),
        (functions_may_do_no_more, f"{NETWORK_ACCESS}.1.Action", "ec2:CreateNetworkInterface"),
        (functions_may_do_no_more, f"{NETWORK_ACCESS}.1.Condition", {"Null": {"aws:SourceArn": "false"}}),
        (functions_may_do_no_more, "RelayFunction.Properties.VpcConfig", REMOVED),
        (logs_expire, "ApiLogGroup.Properties.RetentionInDays", REMOVED),
        (logs_expire, "ApiFunction.Properties.LoggingConfig", REMOVED),
        (logs_expire, "BatchFunction.Properties.LoggingConfig.LogGroup", "/aws/lambda/other"),
        (logs_expire, "HttpApiApiGatewayDefaultStage.Properties.AccessLogSettings", REMOVED),
        (logs_expire, "RelayApiprodStage.Properties.AccessLogSetting", REMOVED),
        (all_is_encrypted, "ApiLogGroup.Properties.KmsKeyId", REMOVED),
        (all_is_encrypted, "ApiFunction.Properties.KmsKeyArn", REMOVED),
        (all_is_encrypted, "ConfigurationProfile.Properties.KmsKeyIdentifier", REMOVED),
        (all_is_encrypted, f"{BUCKET}.Properties.BucketEncryption", REMOVED),
        (all_is_encrypted, f"{ENCRYPTION}.KMSMasterKeyID", REMOVED),
        (all_is_encrypted, f"{ENCRYPTION}.SSEAlgorithm", "AES256"),
        (nothing_is_open_by_accident, f"{BODY}.paths./{{path+}}.get.security", []),
        (nothing_is_open_by_accident, f"{BODY}.paths./{{path+}}.post.security", REMOVED),
        (nothing_is_open_by_accident, f"{BODY}.paths./{{path+}}.post.security", [{"nothing": []}]),
        (nothing_is_open_by_accident, f"{BODY}.paths./other", {"get": {}}),
        (nothing_is_open_by_accident, f"{BODY}.components.securitySchemes.api-key", {"type": "apiKey"}),
        (
            nothing_is_open_by_accident,
            f"{BODY}.paths./{{path+}}.options",
            {"security": [{"AWS_IAM": []}]},
        ),
        (
            nothing_is_open_by_accident,
            "RelayApi.Properties.Body.paths./{path+}.x-amazon-apigateway-any-method.security",
            {"Fn::If": ["IsOpen", [], []]},
        ),
        (nothing_is_open_by_accident, "ApiPermission.Properties.SourceArn", REMOVED),
        (nothing_is_open_by_accident, "ApiPermission.Properties.Principal", "*"),
        (
            nothing_is_open_by_accident,
            "Url",
            {"Type": "AWS::Lambda::Url", "Properties": {"AuthType": "NONE"}},
        ),
        (nothing_is_open_by_accident, "Route", {"Type": "AWS::ApiGatewayV2::Route", "Properties": {}}),
        (secrets_are_not_told, "ApiFunction.Properties.Description", {"Ref": "StateKey"}),
        (
            secrets_are_not_told,
            "ApiFunction.Properties.Tags",
            [{"Key": "upstreams", "Value": {"Fn::Sub": "${Upstreams}"}}],
        ),
        (secrets_are_not_told, "RelayLogGroup.Properties.LogGroupName", {"Ref": "RenderUrl"}),
        (secrets_are_not_told, "Alarms.Properties.Parameters.Service", {"Ref": "ApiKeyDigests"}),
        (buckets_are_private, f"{BUCKET}.Properties.PublicAccessBlockConfiguration", REMOVED),
        (buckets_are_private, f"{BUCKET}.Properties.PublicAccessBlockConfiguration.BlockPublicAcls", False),
        (buckets_are_private, f"{BUCKET}.Properties.OwnershipControls", REMOVED),
        (buckets_are_private, f"{BUCKET}.Properties.LifecycleConfiguration", REMOVED),
        (buckets_are_private, f"{BUCKET}.DeletionPolicy", REMOVED),
        (buckets_are_private, f"{BUCKET}.UpdateReplacePolicy", "Delete"),
        (buckets_are_private, "BatchBucketPolicy", REMOVED),
        (
            buckets_are_private,
            "BatchBucketPolicy.Properties.PolicyDocument.Statement.0.Condition",
            {"Bool": {"aws:SecureTransport": "true"}},
        ),
        (
            buckets_are_private,
            "BatchBucketPolicy.Properties.PolicyDocument.Statement.0.Resource",
            [{"Fn::GetAtt": [BUCKET, "Arn"]}],
        ),
    ],
)
def test_a_broken_template_is_seen(rule: Rule, place: str, value: object) -> None:
    template = stack(**MOST).template
    assert list(rule(Stack(template, MOST))) == []
    assert list(rule(Stack(changed(template, f"Resources.{place}", value), MOST)))


@pytest.mark.parametrize(
    ("rule", "place", "value"),
    [
        (secrets_are_not_told, "Parameters.StateKey.NoEcho", False),
        (secrets_are_not_told, "Parameters.ApiKeyDigests.NoEcho", REMOVED),
        (secrets_are_not_told, "Outputs.Key", {"Value": {"Ref": "StateKey"}}),
        (secrets_are_not_told, "Outputs.Curl.Value", {"Fn::Sub": "curl ${RenderUrl}"}),
    ],
)
def test_a_secret_that_is_told_is_seen(rule: Rule, place: str, value: object) -> None:
    assert list(rule(Stack(changed(stack(**MOST).template, place, value), MOST)))


@pytest.mark.parametrize(
    ("rule", "place", "value"),
    [
        (
            permissions_name_what_they_are_of,
            "Role.Properties.Policies.0.PolicyDocument.Statement.0.Resource",
            "*",
        ),
        (
            roles_are_written_out,
            "Role.Properties.ManagedPolicyArns",
            ["arn:aws:iam::aws:policy/ReadOnlyAccess"],
        ),
        (logs_expire, "LogGroup.Properties.RetentionInDays", REMOVED),
        (logs_expire, "StateMachine.Properties.LoggingConfiguration", REMOVED),
        (all_is_encrypted, "StateMachine.Properties.EncryptionConfiguration", REMOVED),
        (all_is_encrypted, "LogGroup.Properties.KmsKeyId", REMOVED),
    ],
)
def test_a_broken_nested_template_is_seen(rule: Rule, place: str, value: object) -> None:
    nested = stack(**MOST).nested["BatchWorkflow"]
    assert list(rule(nested)) == []
    template = changed(nested.template, f"Resources.{place}", value)
    assert list(rule(Stack(template, nested.parameters)))


def changed(template: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """A template with one thing different."""
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
