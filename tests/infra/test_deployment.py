"""The packaged application, deployed to moto: the resources it makes, and what an update changes.

moto has no SAM, so the templates are translated here. It ignores some types of resources, which are left out.
test_template.py, test_relay.py and test_policy.py check those in the translated templates.
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
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

from derender.vocabulary import load

from .building import built, sam
from .parameters import API_KEY, FUNCTION_URL, NETWORK, REST_API
from .stack import REGION, RUNTIME, read, stack, translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .stack import Stack

    Template = dict[str, Any]

pytestmark = [
    pytest.mark.filterwarnings("ignore:Tried to parse AWS.*not supported by moto:UserWarning"),
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
"""Types that moto's CloudFormation does not make."""
UNREAD: Final = {"AWS::ApiGateway::Deployment"}
"""Types that it makes from the document of a REST API, which it does not read."""
PARAMETERS: Final = {**API_KEY, **REST_API, **NETWORK, "LogRetentionDays": "14"}
FUNCTIONS: Final = {
    "AuthorizerFunction": "authorizer.handler",
    "ApiFunction": "api.handler",
    "BatchStack.BatchFunction": "batch.handler",
    "RelayStack.RelayFunction": "relay.sh",
}


class Account:
    """An AWS account, and the package that is deployed to it.

    Args:
        endpoint: URL of all its services.
        packaged: Path for the template that `sam package` writes.
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
        files = ("--template-file", built() / "template.yaml", "--output-template-file", packaged)
        sam("package", *files, "--s3-bucket", BUCKET, environment=environment)
        self.packaged = read(packaged)

    def client(self, service: str) -> Any:
        """Return a client of a service."""
        if service not in self._clients:
            client: Any = self._session.client(service, endpoint_url=self._endpoint)  # type: ignore[call-overload]
            self._clients[service] = client
        return self._clients[service]

    def code(self, path: str) -> bytes:
        """Return the package of a function or layer."""
        *nested, name = path.split(".")
        template = self.packaged
        for each in nested:
            template = self._nested(template["Resources"][each])
        properties = template["Resources"][name]["Properties"]
        return self._uploaded(properties.get("CodeUri") or properties["ContentUri"])

    def deploy(self, template: Template, parameters: Mapping[str, str]) -> str:
        """Create or update the stack, and return its status."""
        formation = self.client("cloudformation")
        stacks = {each["StackName"] for each in formation.describe_stacks()["Stacks"]}
        deploy = formation.update_stack if STACK in stacks else formation.create_stack
        deploy(
            StackName=STACK,
            TemplateURL=self._translated(template, parameters),
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        (made,) = formation.describe_stacks(StackName=STACK)["Stacks"]
        return str(made["StackStatus"])

    def _translated(self, template: Template, parameters: Mapping[str, str]) -> str:
        """Upload a template as moto understands it, with all that are nested in it, and return its URL."""
        given = {name: each for name, each in parameters.items() if name in template["Parameters"]}
        translated = as_moto_takes_it(translate(template, given))
        for each in translated["Resources"].values():
            if each["Type"] == "AWS::CloudFormation::Stack":
                each["Properties"]["TemplateURL"] = self._translated(self._nested(each), parameters)
        content = json.dumps(translated).encode()
        key = f"{hashlib.sha256(content).hexdigest()}.json"
        self.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"{self._endpoint}/{BUCKET}/{key}"

    def _nested(self, resource: dict[str, Any]) -> Template:
        nested: Template = yaml_parse(self._uploaded(resource["Properties"]["TemplateURL"]).decode())
        return nested

    def _uploaded(self, url: str) -> bytes:
        content: bytes = self.client("s3").get_object(Bucket=BUCKET, Key=url.rpartition("/")[2])["Body"].read()
        return content

    @property
    def resources(self) -> dict[str, str]:
        """Path of logical names → physical name of each resource."""
        return dict(self._resources(STACK, ""))

    def _resources(self, stack: str, path: str) -> Iterator[tuple[str, str]]:
        for each in self.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]:
            if "LogicalResourceId" in each:
                name, physical = path + each["LogicalResourceId"], each.get("PhysicalResourceId", "")
                yield name, physical
                if each["ResourceType"] == "AWS::CloudFormation::Stack":
                    yield from self._resources(physical, f"{name}.")

    def function(self, path: str) -> Any:
        """Return Lambda's description of a function."""
        return self.client("lambda").get_function(FunctionName=self.resources[path])

    def versions(self, path: str) -> list[str]:
        """Return the published versions of a function."""
        found = self.client("lambda").list_versions_by_function(FunctionName=self.resources[path])["Versions"]
        return [each["Version"] for each in found if each["Version"] != "$LATEST"]


def at(path: str, made: Stack) -> tuple[Stack, str]:
    """Return the stack that holds a resource, and the logical name of the resource in it."""
    *nested, name = path.split(".")
    for each in nested:
        made = made.nested[each]
    return made, name


def as_moto_takes_it(template: Template) -> Template:
    """Return a template without the resources that moto ignores, and without references to them.

    The function stands for its alias. The name of a reference stands for other values, also for outputs of
    nested stacks. Functions have no layers, because moto cannot refer to them.
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
    outputs = {name: each for name, each in template.get("Outputs", {}).items() if known(each) == each}
    return {**template, "Resources": resources, "Outputs": outputs}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account with the deployed application."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    reset(port)
    try:
        # moto finds nested templates in its own S3 by this name.
        made = Account(f"http://localhost:{port}", tmp_path_factory.mktemp("package") / "packaged.yaml")
        assert made.deploy(made.packaged, PARAMETERS) == "CREATE_COMPLETE"
        yield made
    finally:
        reset(port)
        server.stop()


def reset(port: int) -> None:
    """Empty the account, which all of moto in this process shares."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", "/moto-api/reset")
        assert connection.getresponse().status == 200


def test_only_what_moto_ignores_is_left_out() -> None:
    made = stack(**PARAMETERS), stack(**FUNCTION_URL)
    kinds = {each["Type"] for root in made for one in root.walk() for each in one.resources.values()}
    assert kinds - get_model_map().keys() == IGNORED


def test_moto_makes_the_rest_api_without_its_routes(account: Account) -> None:
    gateway = account.client("apigateway")
    (api,) = gateway.get_rest_apis()["items"]
    assert api["name"] == "derender-relay"
    assert [each["path"] for each in gateway.get_resources(restApiId=api["id"])["items"]] == ["/"]


def test_code_and_templates_are_uploaded_once(account: Account) -> None:
    found = [each["Key"] for each in account.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]]
    templates = {"batch", "relay", "relay_url", "relay_api", "alarms", "dashboard"}
    assert len([each for each in found if each.endswith(".template")]) == len(templates)
    # The package of the functions, that of the authorizer, and the layer.
    assert len([each for each in found if "." not in each]) == 3


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions_have_their_settings(account: Account, path: str) -> None:
    made = account.function(path)["Configuration"]
    root, name = at(path, stack(**PARAMETERS))
    wanted = root.properties(name)
    assert made["Handler"] == FUNCTIONS[path] == wanted["Handler"]
    assert made["Runtime"] == RUNTIME
    assert made["Architectures"] == ["x86_64"]
    assert (made["Timeout"], made["MemorySize"]) == (wanted["Timeout"], int(wanted["MemorySize"]))
    assert made["Description"]
    variables = {variable: str(value) for variable, value in made["Environment"]["Variables"].items()}
    assert variables == wanted["Environment"]["Variables"]
    network = {which: ids for which, ids in made.get("VpcConfig", {}).items() if which != "VpcId"}
    assert network == wanted.get("VpcConfig", {})
    assert made["Role"].endswith(f":role/{account.resources[path.replace('Function', 'Role')]}")
    assert account.versions(path) == ([] if name == "AuthorizerFunction" else ["1"])


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions_have_their_code(account: Account, path: str) -> None:
    function = account.function(path)
    content = account.code(path)
    assert function["Configuration"]["CodeSha256"] == sha256(content)
    assert function["Configuration"]["CodeSize"] == len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        assert package.testzip() is None
        module = FUNCTIONS[path].removesuffix(".handler")
        script = module if "." in module else f"{module}.py"
        library = set() if path == "AuthorizerFunction" else {"derender/http/app.py", "fastapi/__init__.py"}
        assert {script, *library} <= set(package.namelist())
        if script == "relay.sh":
            assert package.getinfo(script).external_attr >> 16 & 0o111 == 0o111


def test_the_layer_has_a_vocabulary_that_loads(account: Account, tmp_path: Path) -> None:
    (layer,) = account.client("lambda").list_layers()["Layers"]
    version = account.client("lambda").get_layer_version(LayerName=layer["LayerArn"], VersionNumber=1)
    content = account.code("TokenizerLayer")
    assert version["Content"]["CodeSha256"] == sha256(content)
    assert version["CompatibleRuntimes"] == [RUNTIME]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
    (path,) = tmp_path.glob("**/*.vocab")
    assert path.relative_to(tmp_path).as_posix() == "tokenizer/Qwen3.vocab"
    vocabulary = load(path)
    assert vocabulary.manifest.name == "Qwen3"
    assert b"".join(vocabulary.pieces[each] for each in (9707, 11, 1879, 0)) == b"Hello, world!"


@pytest.mark.parametrize("path", ["", "BatchStack.", "RelayStack."])
def test_roles_have_the_policies_of_the_template(account: Account, path: str) -> None:
    iam = account.client("iam")
    made, _ = at(path, stack(**PARAMETERS))
    for name, role in made.of_type("AWS::IAM::Role").items():
        found = iam.get_role(RoleName=account.resources[path + name])["Role"]
        assert found["AssumeRolePolicyDocument"] == role["AssumeRolePolicyDocument"]
        assert iam.list_attached_role_policies(RoleName=found["RoleName"])["AttachedPolicies"] == []
        names = iam.list_role_policies(RoleName=found["RoleName"])["PolicyNames"]
        assert names == [each["PolicyName"] for each in role["Policies"]], name


def test_the_batch_role_names_the_bucket(account: Account) -> None:
    role = account.resources["BatchStack.BatchRole"]
    policy = account.client("iam").get_role_policy(RoleName=role, PolicyName="files")
    assert f"arn:aws:s3:::{account.resources['BatchStack.Bucket']}/output/*" in str(policy["PolicyDocument"])


@pytest.mark.parametrize(
    ("path", "source"), [("ApiFunction", ":HttpApi/*"), ("RelayStack.RelayFunction", "/prod/*")]
)
def test_only_api_gateway_may_invoke_the_functions(account: Account, path: str, source: str) -> None:
    policy = account.client("lambda").get_policy(FunctionName=account.resources[path])["Policy"]
    (statement,) = json.loads(policy)["Statement"]
    assert statement["Principal"] == {"Service": "apigateway.amazonaws.com"}
    assert statement["Condition"]["ArnLike"]["AWS:SourceArn"].endswith(source)


def test_logs_have_the_chosen_retention(account: Account) -> None:
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
    found = account.client("s3").get_bucket_encryption(Bucket=account.resources["BatchStack.Bucket"])
    ((rule),) = found["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_the_state_machine_calls_the_batch_function(account: Account) -> None:
    machines = account.client("stepfunctions")
    (found,) = machines.list_state_machines()["stateMachines"]
    made = machines.describe_state_machine(stateMachineArn=found["stateMachineArn"])
    assert made["name"] == "derender-batch"
    definition = json.loads(made["definition"])
    called = definition["States"][definition["StartAt"]]["Parameters"]["FunctionName"]
    assert called == account.function("BatchStack.BatchFunction")["Configuration"]["FunctionArn"]
    assert definition["States"]["Derender"]["MaxConcurrency"] == 50


def test_the_dashboard_shows_the_api_function(account: Account) -> None:
    body = account.client("cloudwatch").get_dashboard(DashboardName=STACK)["DashboardBody"]
    assert json.loads(body)["widgets"]
    assert account.resources["ApiFunction"] in body
    # moto does not resolve the outputs of nested stacks.
    assert "BatchStack.Outputs.FunctionName" in body
    assert "RelayStack.Outputs.FunctionName" in body


def test_cloudwatch_accepts_the_alarms(account: Account) -> None:
    """CloudWatch's API has a field for each property."""
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


def test_an_update_changes_what_is_asked_and_can_be_reverted(account: Account) -> None:
    before = account.resources
    assert account.deploy(account.packaged, {**PARAMETERS, "MemorySize": "2048"}) == "UPDATE_COMPLETE"
    assert account.function("ApiFunction")["Configuration"]["MemorySize"] == 2048
    kept = {name: each for name, each in before.items() if name in (*FUNCTIONS, "BatchStack.Bucket")}
    assert account.resources.items() >= kept.items()
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
    assert account.versions("BatchStack.BatchFunction") == ["1"]


def sha256(content: bytes) -> str:
    """Return a digest as Lambda writes it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode()
