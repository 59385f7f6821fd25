"""The packaged application, deployed to an account of moto's: what is there then, and what an update changes.

Moto has no SAM, so the template is translated here. Nor does it know all types of resources. Those are left
out, and checked in the translated template instead (test_template.py, test_policy.py).
"""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import io
import json
import re
import zipfile
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
from moto.cloudformation.parsing import get_model_map
from moto.server import ThreadedMotoServer

from derender.vocabulary import load

from .building import built, sam
from .stack import REGION, read, stack, translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Template = dict[str, Any]

pytestmark = [
    # Of moto's: alarms in nested stacks, and what SAM names anew each time, though it is not made.
    pytest.mark.filterwarnings("ignore:Tried to parse AWS.*not supported by moto:UserWarning"),
    pytest.mark.filterwarnings("ignore:Unable to delete RelayApiDeployment.*never created:UserWarning"),
]

BUCKET: Final = "packages"
STACK: Final = "derender"
IGNORED: Final = {
    "AWS::ApiGateway::Stage",
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Stage",
    "AWS::AppConfig::Application",
    "AWS::AppConfig::ConfigurationProfile",
    "AWS::AppConfig::HostedConfigurationVersion",
    "AWS::CloudWatch::Alarm",
    "AWS::CodeDeploy::Application",
    "AWS::CodeDeploy::DeploymentGroup",
    "AWS::Lambda::Alias",
    "AWS::Lambda::Url",
    "AWS::S3::BucketPolicy",
}
"""What moto's CloudFormation makes nothing of."""
UNREAD: Final = {"AWS::ApiGateway::Deployment"}
"""What it would make of a REST API's document, which it does not read."""
PARAMETERS: Final = {
    "Authorization": "api-key",
    "ApiKeyDigests": "0123456789abcdef" * 4,
    "Relay": "rest-api",
    "Upstreams": '{"gpu": "http://gpu.example"}',
    "RelaySubnets": "subnet-0a1b2c3d,subnet-4e5f6071",
    "RelaySecurityGroups": "sg-0a1b2c3d",
    "LogRetentionDays": "14",
}
FUNCTIONS: Final = {
    "AuthorizerFunction": "authorizer.handler",
    "ApiFunction": "api.handler",
    "BatchFunction": "batch.handler",
    "RelayFunction": "relay.sh",
}


class Account:
    """An account, and the package that is deployed to it.

    Args:
        endpoint: Where all of its services are.
        packaged: What `sam package` writes.
    """

    def __init__(self, endpoint: str, packaged: Path) -> None:
        self._session = boto3.Session("testing", "testing", region_name=REGION)
        self._clients: dict[str, Any] = {}
        self._endpoint = endpoint
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }
        sam(
            "package",
            "--template-file",
            built("x86_64") / "template.yaml",
            "--s3-bucket",
            BUCKET,
            "--output-template-file",
            packaged,
            environment=environment,
        )
        self.packaged = read(packaged)

    def client(self, service: str) -> Any:
        """A client of one of its services."""
        if service not in self._clients:
            client: Any = self._session.client(service, endpoint_url=self._endpoint)  # type: ignore[call-overload]
            self._clients[service] = client
        return self._clients[service]

    def code(self, name: str) -> bytes:
        """What was uploaded of a function or a layer."""
        properties = self.packaged["Resources"][name]["Properties"]
        _, _, key = str(properties.get("CodeUri") or properties["ContentUri"]).rpartition("/")
        content: bytes = self.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def deploy(self, template: Template, parameters: Mapping[str, str]) -> str:
        """Create the stack, or update it. What CloudFormation says of it then."""
        key = f"{STACK}.template"
        translated = as_moto_takes_it(translate(template, parameters))
        self.client("s3").put_object(Bucket=BUCKET, Key=key, Body=json.dumps(translated).encode())
        formation = self.client("cloudformation")
        there = {each["StackName"] for each in formation.describe_stacks()["Stacks"]}
        deploy = formation.update_stack if STACK in there else formation.create_stack
        deploy(
            StackName=STACK,
            TemplateURL=f"{self._endpoint}/{BUCKET}/{key}",
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        (made,) = formation.describe_stacks(StackName=STACK)["Stacks"]
        return str(made["StackStatus"])

    @property
    def resources(self) -> dict[str, str]:
        """Logical name → what the service calls it, of the stack's resources."""
        found = self.client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
        return {
            each["LogicalResourceId"]: each.get("PhysicalResourceId", "")
            for each in found
            if "LogicalResourceId" in each
        }

    def function(self, name: str) -> Any:
        """A function, as Lambda describes it."""
        return self.client("lambda").get_function(FunctionName=self.resources[name])

    def versions(self, name: str) -> list[str]:
        """The versions of a function that are published."""
        found = self.client("lambda").list_versions_by_function(FunctionName=self.resources[name])["Versions"]
        return [each["Version"] for each in found if each["Version"] != "$LATEST"]


def as_moto_takes_it(template: Template) -> Template:
    """A template without what moto ignores, and without what that would return.

    An alias is its function then; of anything else, and of nested stacks' outputs, there is the name. Layers
    are made, but functions have none, since moto can't refer to one.
    """
    ignored = {name: each for name, each in template["Resources"].items() if each["Type"] in IGNORED | UNREAD}

    def name_of(found: re.Match[str]) -> str:
        is_unknown = found[1] in ignored or found[2].startswith(".Outputs.")
        return f"{found[1]}{found[2]}" if is_unknown else found[0]

    def known(value: Any) -> Any:
        match value:
            case {"Ref": name} if name in ignored:
                resource = ignored[name]
                if resource["Type"] != "AWS::Lambda::Alias":
                    return name
                return {"Fn::GetAtt": [resource["Properties"]["FunctionName"]["Ref"], "Arn"]}
            case {"Fn::GetAtt": [name, attribute]} if name in ignored or attribute.startswith("Outputs."):
                return f"{name}.{attribute}"
            case {"Fn::Sub": str(text)}:
                return {"Fn::Sub": re.sub(r"\$\{(\w+)((?:\.\w+)*)\}", name_of, text)}
            case {"Fn::Sub": [text, names]}:
                return {"Fn::Sub": [known({"Fn::Sub": text})["Fn::Sub"], known(names)]}
            case dict():
                return {name: known(each) for name, each in value.items() if name != "Layers"}
            case list():
                return [known(each) for each in value]
        return value

    resources = {name: known(each) for name, each in template["Resources"].items() if name not in ignored}
    outputs = {name: each for name, each in template["Outputs"].items() if known(each) == each}
    return {**template, "Resources": resources, "Outputs": outputs}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account that the application is deployed to."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    reset(port)
    try:
        # By this name moto finds nested templates in its own S3.
        made = Account(f"http://localhost:{port}", tmp_path_factory.mktemp("package") / "packaged.yaml")
        assert made.deploy(made.packaged, PARAMETERS) == "CREATE_COMPLETE"
        yield made
    finally:
        reset(port)
        server.stop()


def reset(port: int) -> None:
    """Forget what is in the account. All that is moto's in this process has it in common."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", "/moto-api/reset")
        assert connection.getresponse().status == 200


def test_only_what_moto_ignores_is_left_out() -> None:
    made = stack(**PARAMETERS), stack(Relay="function-url", Upstreams=PARAMETERS["Upstreams"])
    kinds = {each["Type"] for root in made for one in root.walk() for each in one.resources.values()}
    assert kinds - get_model_map().keys() == IGNORED


def test_there_is_a_rest_api_of_which_moto_reads_no_routes(account: Account) -> None:
    gateway = account.client("apigateway")
    (api,) = gateway.get_rest_apis()["items"]
    assert api["name"] == "derender-relay"
    assert [each["path"] for each in gateway.get_resources(restApiId=api["id"])["items"]] == ["/"]


def test_code_and_templates_are_uploaded_once(account: Account) -> None:
    found = account.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    templates = [each["Key"] for each in found if each["Key"].endswith(".template")]
    assert len(templates) == 1 + len(stack(**PARAMETERS).nested)
    # The functions' package, the authorizer's, and the layer.
    assert len(found) - len(templates) == 3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_their_settings(account: Account, name: str) -> None:
    made = account.function(name)["Configuration"]
    wanted = stack(**PARAMETERS).properties(name)
    assert made["Handler"] == FUNCTIONS[name] == wanted["Handler"]
    assert made["Runtime"] == "python3.13"
    assert made["Architectures"] == ["x86_64"]
    assert (made["Timeout"], made["MemorySize"]) == (wanted["Timeout"], int(wanted["MemorySize"]))
    assert made["Description"]
    variables = {variable: str(value) for variable, value in made["Environment"]["Variables"].items()}
    assert variables == wanted["Environment"]["Variables"]
    network = {which: ids for which, ids in made.get("VpcConfig", {}).items() if which != "VpcId"}
    assert network == wanted.get("VpcConfig", {})
    assert made["Role"].endswith(f":role/{account.resources[name.replace('Function', 'Role')]}")
    assert account.versions(name) == ([] if name == "AuthorizerFunction" else ["1"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_their_code(account: Account, name: str) -> None:
    function = account.function(name)
    content = account.code(name)
    assert function["Configuration"]["CodeSha256"] == sha256(content)
    assert function["Configuration"]["CodeSize"] == len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        assert package.testzip() is None
        module = FUNCTIONS[name].removesuffix(".handler")
        script = module if "." in module else f"{module}.py"
        library = set() if name == "AuthorizerFunction" else {"derender/http/app.py", "fastapi/__init__.py"}
        assert {script, *library} <= set(package.namelist())
        if script == "relay.sh":
            assert package.getinfo(script).external_attr >> 16 & 0o111 == 0o111


def test_the_layer_has_a_vocabulary_that_can_be_loaded(account: Account, tmp_path: Path) -> None:
    (layer,) = account.client("lambda").list_layers()["Layers"]
    version = account.client("lambda").get_layer_version(LayerName=layer["LayerArn"], VersionNumber=1)
    content = account.code("TokenizerLayer")
    assert version["Content"]["CodeSha256"] == sha256(content)
    assert version["CompatibleRuntimes"] == ["python3.13"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
    (path,) = tmp_path.glob("**/*.vocab")
    assert path.relative_to(tmp_path).as_posix() == "tokenizer/Qwen3.vocab"
    vocabulary = load(path)
    assert vocabulary.manifest.name == "Qwen3"
    assert b"".join(vocabulary.pieces[each] for each in (9707, 11, 1879, 0)) == b"Hello, world!"


def test_roles_may_do_what_the_template_says(account: Account) -> None:
    iam = account.client("iam")
    made = stack(**PARAMETERS)
    for name, role in made.of_type("AWS::IAM::Role").items():
        found = iam.get_role(RoleName=account.resources[name])["Role"]
        assert found["AssumeRolePolicyDocument"] == role["AssumeRolePolicyDocument"]
        assert iam.list_attached_role_policies(RoleName=found["RoleName"])["AttachedPolicies"] == []
        names = iam.list_role_policies(RoleName=found["RoleName"])["PolicyNames"]
        assert names == [each["PolicyName"] for each in role["Policies"]], name
    document = str(
        iam.get_role_policy(RoleName=account.resources["BatchRole"], PolicyName="files")["PolicyDocument"]
    )
    assert f"arn:aws:s3:::{account.resources['BatchBucketOfStack']}/output/*" in document


def test_only_api_gateway_may_invoke_the_api_function(account: Account) -> None:
    policy = account.client("lambda").get_policy(FunctionName=account.resources["ApiFunction"])["Policy"]
    (statement,) = json.loads(policy)["Statement"]
    assert statement["Principal"] == {"Service": "apigateway.amazonaws.com"}
    assert statement["Condition"]["ArnLike"]["AWS:SourceArn"].endswith(":HttpApi/*")


def test_logs_are_kept_for_as_long_as_was_said(account: Account) -> None:
    groups = account.client("logs").describe_log_groups()["logGroups"]
    assert {each["logGroupName"]: each.get("retentionInDays") for each in groups} == dict.fromkeys(
        (
            "/aws/apigateway/derender-relay",
            "/aws/lambda/derender-api",
            "/aws/lambda/derender-authorizer",
            "/aws/lambda/derender-batch",
            "/aws/lambda/derender-relay",
            "/aws/vendedlogs/apis/derender-api",
            "/aws/vendedlogs/states/derender-batch",
        ),
        14,
    )


def test_the_bucket_is_encrypted(account: Account) -> None:
    bucket = account.resources["BatchBucketOfStack"]
    ((rule),) = account.client("s3").get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"][
        "Rules"
    ]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_the_state_machine_asks_the_batch_function(account: Account) -> None:
    machines = account.client("stepfunctions")
    (found,) = machines.list_state_machines()["stateMachines"]
    made = machines.describe_state_machine(stateMachineArn=found["stateMachineArn"])
    assert made["name"] == "derender-batch"
    definition = json.loads(made["definition"])
    asked = definition["States"][definition["StartAt"]]["Parameters"]["FunctionName"]
    assert asked == account.function("BatchFunction")["Configuration"]["FunctionArn"]
    assert definition["States"]["Derender"]["MaxConcurrency"] == 50


def test_the_dashboard_shows_the_functions(account: Account) -> None:
    body = account.client("cloudwatch").get_dashboard(DashboardName=STACK)["DashboardBody"]
    assert json.loads(body)["widgets"]
    for name in FUNCTIONS.keys() - {"AuthorizerFunction"}:
        assert account.resources[name] in body


def test_cloudwatch_takes_the_alarms(account: Account) -> None:
    """Those of all stacks, as its API has them: a property is a field of the same name."""
    cloudwatch = account.client("cloudwatch")
    alarms = {
        name: properties
        for each in stack(**PARAMETERS).walk()
        for name, properties in each.of_type("AWS::CloudWatch::Alarm").items()
    }
    for name, properties in alarms.items():
        numbers = {"Threshold": float(properties["Threshold"])}
        cloudwatch.put_metric_alarm(**{"AlarmName": name, **properties, **numbers})
    made = cloudwatch.describe_alarms()["MetricAlarms"]
    assert len(made) == len(alarms) >= 10
    assert all(each["AlarmDescription"] for each in made)


def test_an_update_changes_what_is_asked_and_can_be_taken_back(account: Account) -> None:
    before = account.resources
    assert account.deploy(account.packaged, {**PARAMETERS, "MemorySize": "2048"}) == "UPDATE_COMPLETE"
    assert account.function("ApiFunction")["Configuration"]["MemorySize"] == 2048
    assert account.function("BatchFunction")["Configuration"]["MemorySize"] == 1769
    assert (
        account.resources.items()
        >= {name: each for name, each in before.items() if name in (*FUNCTIONS, "BatchBucketOfStack")}.items()
    )
    assert account.deploy(account.packaged, {**PARAMETERS, "MemorySize": "1024"}) == "UPDATE_COMPLETE"
    assert account.function("ApiFunction")["Configuration"]["MemorySize"] == 1024


def test_other_code_is_another_version_beside_the_first(account: Account) -> None:
    other = copy.deepcopy(account.packaged)
    content = account.code("AuthorizerFunction")
    account.client("s3").put_object(Bucket=BUCKET, Key="other", Body=content)
    other["Resources"]["ApiFunction"]["Properties"]["CodeUri"] = f"s3://{BUCKET}/other"
    assert account.deploy(other, PARAMETERS) == "UPDATE_COMPLETE"
    assert account.function("ApiFunction")["Configuration"]["CodeSha256"] == sha256(content)
    assert account.versions("ApiFunction") == ["1", "2"]
    assert account.versions("BatchFunction") == ["1"]


def sha256(content: bytes) -> str:
    """A digest, as Lambda writes it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode()
