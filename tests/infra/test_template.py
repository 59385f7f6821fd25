"""The template, and what `sam build` makes of it."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import cache
from http.client import HTTPConnection, HTTPException
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from samtranslator.translator.transform import transform  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

from ..benchmarks.runtime import CHAT, Runtime, http_event

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[2]
REGION: Final = "eu-central-1"
RUNTIME: Final = ROOT / ".cache" / "python3.13"
MACHINES: Final = {"x86_64": ("x86_64", 0x3E), "arm64": ("aarch64", 0xB7)}
"""Architecture → what file names call it, and its number in an ELF file."""
RELAYS: Final = ("off", "function-url", "rest-api")
UPSTREAMS: Final = '{"gpu": "http://127.0.0.1:9"}'
"""Nobody is there."""
NOT_DEPLOYED: Final = {"huggingface-hub"}
"""What tokenizers needs only to download."""


def run(*command: str | Path) -> str:
    """Run a command in the project, without AWS credentials; what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    settings = {"AWS_DEFAULT_REGION": REGION, "SAM_CLI_TELEMETRY": "0", "PYTHON": sys.executable}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def sam(*arguments: str | Path) -> str:
    """Run the SAM CLI of this environment."""
    return run(Path(sys.executable).with_name("sam"), *arguments)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Architecture → the folder that `sam build` made."""

    @cache
    def built(architecture: str) -> Path:
        folder = tmp_path_factory.mktemp("build") / architecture
        sam("build", "--build-dir", folder, "--parameter-overrides", f"Architecture={architecture}")
        return folder

    return built


@pytest.fixture(scope="session")
def python313() -> Path:
    """A Python of the function's version with the runtime client; made where it is not there yet.

    Python 3.13 is no prerequisite: where there is none, the package is still run, built for this Python.
    """
    interpreter = RUNTIME / "bin" / "python"
    if not (interpreter.is_file() and (RUNTIME / "complete").is_file()):
        found = run("make", "--no-print-directory", "-C", "handlers", "runtime-python").strip()
        if not found:
            pytest.skip("no Python 3.13 found")
        run(found, "-m", "venv", "--clear", RUNTIME)
        run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "awslambdaric>=3")
        (RUNTIME / "complete").touch()
    return interpreter


class Stack:
    """What CloudFormation makes of the template, with its parameters filled in."""

    def __init__(self, template: dict[str, Any], parameters: dict[str, str]) -> None:
        assert parameters.keys() <= template["Parameters"].keys()
        defaults = {name: str(each.get("Default", "")) for name, each in template["Parameters"].items()}
        self._values = {**defaults, "AWS::Partition": "aws", "AWS::Region": REGION, **parameters}
        self._conditions = template["Conditions"]
        self.refusals = [
            each["AssertDescription"]
            for rule in template["Rules"].values()
            if self._resolved(rule["RuleCondition"])
            for each in rule["Assertions"]
            if not self._resolved(each["Assert"])
        ]
        self.resources = self._made(template["Resources"])
        self.outputs = self._made(template["Outputs"])

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """The properties of its resources of this type."""
        return [each["Properties"] for each in self.resources.values() if each["Type"] == name]

    def function(self, name: str) -> dict[str, Any]:
        """A function's properties."""
        properties: dict[str, Any] = self.resources[name]["Properties"]
        return properties

    def variables(self, name: str) -> dict[str, str]:
        """A function's environment."""
        variables: dict[str, str] = self.function(name)["Environment"]["Variables"]
        return variables

    def _made(self, section: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: each for name, each in section.items() if self._holds(each.get("Condition"))}
        return {name: self._resolved(each) for name, each in wanted.items()}

    def _holds(self, condition: str | None) -> bool:
        return condition is None or bool(self._resolved(self._conditions[condition]))

    def _resolved(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return self._values.get(name, value)
            case {"Fn::Equals": [left, right]}:
                return self._resolved(left) == self._resolved(right)
            case {"Fn::Not": [condition]}:
                return not self._resolved(condition)
            case {"Fn::If": [condition, then, otherwise]}:
                return self._resolved(then if self._holds(condition) else otherwise)
            case {"Fn::Sub": [text, {**names}]}:
                return self._substituted(text, self._resolved(names))
            case {"Fn::Sub": str(text)}:
                return self._substituted(text, {})
            case dict():
                return {name: self._resolved(each) for name, each in value.items()}
            case list():
                return [self._resolved(each) for each in value]
        return value

    def _substituted(self, text: str, names: dict[str, Any]) -> str:
        for name, value in {**self._values, **names}.items():
            text = text.replace(f"${{{name}}}", str(value))
        return text


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    """The template, translated by SAM."""
    source = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
    for name, folder in (
        ("ApiFunction", "CodeUri"),
        ("RelayFunction", "CodeUri"),
        ("TokenizerLayer", "ContentUri"),
    ):
        source["Resources"][name]["Properties"][folder] = "s3://bucket/key"

    class Policies:
        def load(self) -> dict[str, str]:
            return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        translated: dict[str, Any] = transform(source, {}, Policies())
    return translated


def test_validates() -> None:
    assert "is a valid SAM Template" in sam("validate", "--lint")


@pytest.mark.parametrize(
    ("relay", "front_doors"),
    [
        ("off", []),
        ("function-url", ["AWS::Lambda::Url"]),
        ("rest-api", ["AWS::ApiGateway::RestApi", "AWS::Lambda::Permission"]),
    ],
)
def test_the_relay_has_the_front_door_that_is_wanted(
    template: dict[str, Any], relay: str, front_doors: list[str]
) -> None:
    stack = Stack(template, {"Relay": relay})
    without = Stack(template, {}).resources
    added = [each["Type"] for name, each in stack.resources.items() if name not in without]
    kinds = ("AWS::Lambda::Url", "AWS::ApiGateway::RestApi", "AWS::Lambda::Permission")
    assert sorted(each for each in added if each in kinds) == sorted(front_doors)
    assert ("RelayFunction" in stack.resources) == ("RelayUrl" in stack.outputs) == bool(front_doors)
    assert len(stack.of_type("AWS::Logs::LogGroup")) == len(stack.of_type("AWS::Lambda::Function"))


@pytest.mark.parametrize("relay", RELAYS)
def test_every_route_needs_signed_requests(template: dict[str, Any], relay: str) -> None:
    stack = Stack(template, {"Relay": relay})
    for api in (*stack.of_type("AWS::ApiGatewayV2::Api"), *stack.of_type("AWS::ApiGateway::RestApi")):
        routes = [route for path in api["Body"]["paths"].values() for route in path.values()]
        assert routes
        for route in routes:
            assert route["security"] == [{"AWS_IAM": []}]
        scheme = api["Body"]["components"]["securitySchemes"]["AWS_IAM"]
        assert scheme["x-amazon-apigateway-authtype"] == "awsSigv4"
    for url in stack.of_type("AWS::Lambda::Url"):
        assert url["AuthType"] == "AWS_IAM"
    for permission in stack.of_type("AWS::Lambda::Permission"):
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert "SourceArn" in permission


@pytest.mark.parametrize("relay", RELAYS)
def test_the_functions_may_only_write_logs(template: dict[str, Any], relay: str) -> None:
    stack = Stack(template, {"Relay": relay})
    roles = stack.of_type("AWS::IAM::Role")
    assert len(roles) == len(stack.of_type("AWS::Lambda::Function"))
    for role in roles:
        (policy,) = role["ManagedPolicyArns"]
        assert policy.endswith("/AWSLambdaBasicExecutionRole")
        assert "Policies" not in role


def test_the_function_url_streams(template: dict[str, Any]) -> None:
    (url,) = Stack(template, {"Relay": "function-url"}).of_type("AWS::Lambda::Url")
    assert url["InvokeMode"] == "RESPONSE_STREAM"


def test_the_rest_api_streams_for_as_long_as_the_function_runs(template: dict[str, Any]) -> None:
    stack = Stack(template, {"Relay": "rest-api"})
    (api,) = stack.of_type("AWS::ApiGateway::RestApi")
    for path in api["Body"]["paths"].values():
        for route in path.values():
            integration = route["x-amazon-apigateway-integration"]
            assert integration["responseTransferMode"] == "STREAM"
            assert integration["uri"] == (
                f"arn:aws:apigateway:{REGION}:lambda:path/2021-11-15/functions/"
                "${RelayFunction.Arn}/response-streaming-invocations"
            )
            assert integration["timeoutInMillis"] == 1000 * stack.function("RelayFunction")["Timeout"]


@pytest.mark.parametrize(("architecture", "name"), [("x86_64", "X86"), ("arm64", "Arm64")])
def test_the_relay_runs_under_the_web_adapter(template: dict[str, Any], architecture: str, name: str) -> None:
    stack = Stack(
        template,
        {
            "Architecture": architecture,
            "Relay": "function-url",
            "WebAdapterAccount": "123456789012",
            "WebAdapterVersion": "7",
        },
    )
    function = stack.function("RelayFunction")
    assert function["Architectures"] == [architecture]
    tokenizer, adapter = function["Layers"]
    assert tokenizer == stack.function("ApiFunction")["Layers"][0]
    assert adapter == f"arn:aws:lambda:{REGION}:123456789012:layer:LambdaAdapterLayer{name}:7"
    variables = stack.variables("RelayFunction")
    assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/bootstrap"
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"


def test_parameters_are_the_settings(template: dict[str, Any]) -> None:
    of_api = {
        "Model": "DERENDER_MODEL",
        "ServedModelName": "DERENDER_SERVED_MODEL_NAME",
        "ToolCallParser": "DERENDER_TOOL_CALL_PARSER",
        "ReasoningParser": "DERENDER_REASONING_PARSER",
        "MaxBodyBytes": "DERENDER_MAX_BODY_BYTES",
        "StateKey": "DERENDER_STATE_KEY",
    }
    of_relay = {
        **of_api,
        "Upstreams": "DERENDER_UPSTREAMS",
        "RenderUrl": "DERENDER_RENDER_URL",
        "UpstreamTimeout": "DERENDER_UPSTREAM_TIMEOUT",
    }
    # ${TOKEN} is the relay's to fill in, not the template's.
    values = {parameter: f"{parameter} with ${{TOKEN}}" for parameter in of_relay}
    stack = Stack(template, {"Relay": "rest-api", **values})
    for name, settings in (("ApiFunction", of_api), ("RelayFunction", of_relay)):
        variables = {each: text for each, text in stack.variables(name).items() if each.startswith("DERENDER_")}
        assert variables == {setting: values[parameter] for parameter, setting in settings.items()}


def test_a_relay_needs_upstreams(template: dict[str, Any]) -> None:
    assert Stack(template, {}).refusals == []
    assert Stack(template, {"Relay": "rest-api", "Upstreams": UPSTREAMS}).refusals == []
    (refusal,) = Stack(template, {"Relay": "rest-api"}).refusals
    assert "needs Upstreams" in refusal


def test_secrets_are_not_echoed(template: dict[str, Any]) -> None:
    hidden = {name for name, parameter in template["Parameters"].items() if parameter.get("NoEcho")}
    assert hidden == {"RenderUrl", "StateKey", "Upstreams"}


@pytest.mark.parametrize("architecture", MACHINES)
def test_function_folder(build: Callable[[str], Path], architecture: str) -> None:
    folder = build(architecture) / "ApiFunction"
    for name in ("api.py", "relay.py", "derender/app.py", "fastapi/__init__.py", "mangum/__init__.py"):
        assert (folder / name).is_file(), name
    extensions = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.so")}
    machine, number = MACHINES[architecture]
    assert {
        f"msgspec/_core.cpython-313-{machine}-linux-gnu.so",
        f"orjson/orjson.cpython-313-{machine}-linux-gnu.so",
        f"pydantic_core/_pydantic_core.cpython-313-{machine}-linux-gnu.so",
        "tokenizers/tokenizers.abi3.so",
    } <= extensions.keys()
    for path in extensions.values():
        assert int.from_bytes(path.read_bytes()[18:20], "little") == number, path


def test_both_functions_are_one_package(build: Callable[[str], Path]) -> None:
    of_api, of_relay = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (build("x86_64") / "ApiFunction", build("x86_64") / "RelayFunction")
    )
    assert of_api == of_relay


def test_the_relays_script_is_executable(build: Callable[[str], Path]) -> None:
    for folder in (ROOT / "handlers", build("x86_64") / "RelayFunction"):
        assert (folder / "relay.sh").stat().st_mode & 0o555 == 0o555


def test_requirements_are_complete(build: Callable[[str], Path]) -> None:
    installed = {
        canonicalize_name(each.name): each
        for each in distributions(path=[str(build("x86_64") / "ApiFunction")])
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *(line for each in installed.values() for line in each.requires or ())]
    environment = {"python_version": "3.13", "python_full_version": "3.13.0", "extra": ""}
    for requirement in map(Requirement, needed):
        name = canonicalize_name(requirement.name)
        if name in NOT_DEPLOYED or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        assert name in installed, f"{requirement} is not in handlers/requirements.txt"
        assert requirement.specifier.contains(installed[name].version, prereleases=True), requirement
    assert not NOT_DEPLOYED & installed.keys()


def test_layer_folder(build: Callable[[str], Path]) -> None:
    folder = build("x86_64") / "TokenizerLayer"
    source = ROOT / "layers" / "tokenizer" / "default"
    assert sorted(path.name for path in folder.iterdir()) == ["tokenizer"]
    assert list(folder.glob("tokenizer/*.vocab"))
    for path in source.iterdir():
        assert (folder / "tokenizer" / path.name).read_bytes() == path.read_bytes()


def test_a_layer_of_ones_own_takes_the_place_of_the_bundled(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "layers" / "tokenizer", tmp_path / "source", ignore=shutil.ignore_patterns("layer"))
    own = tmp_path / "source" / "layer" / "own.vocab"
    own.parent.mkdir()
    own.write_bytes(b"compiled")
    run("make", "-C", tmp_path / "source", "build-TokenizerLayer", f"ARTIFACTS_DIR={tmp_path / 'layer'}")
    assert [path.name for path in (tmp_path / "layer" / "tokenizer").iterdir()] == ["own.vocab"]


def says_hello(function: Path, layer: Path, python: Path | str) -> None:
    """Run a built package and derender through it."""
    choice = {"index": 0, "token_ids": [9707, 11, 1879, 0, 151_645], "finish_reason": "stop"}
    body = {"generate_response": {"request_id": "chatcmpl-1", "choices": [choice]}, "chat_request": {}}
    environment = {"DERENDER_LAYER": str(layer), "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    with Runtime(function, environment=environment, python=python) as runtime:
        answer = runtime.invoke(http_event(CHAT, orjson.dumps(body).decode()))
    assert answer["statusCode"] == 200
    assert orjson.loads(answer["body"])["choices"][0]["message"]["content"] == "Hello, world!"


def becomes_ready(function: Path, layer: Path, python: Path | str, template: dict[str, Any]) -> None:
    """Start a built package as the Web Adapter does, with the template's variables, and ask what it asks."""
    stack = Stack(template, {"Relay": "function-url", "Upstreams": UPSTREAMS})
    variables = stack.variables("RelayFunction")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "LANG": "en_US.UTF-8",
        "LAMBDA_TASK_ROOT": str(function),
        "PATH": f"{Path(python).parent}{os.pathsep}{os.defpath}",
        "PYTHONDONTWRITEBYTECODE": "1",  # /var/task is read-only
        "PYTHONPATH": "/var/runtime",  # as Lambda sets it: what the package needs is not on it
        **variables,
        "AWS_LWA_PORT": str(port),
        "DERENDER_LAYER": str(layer),
    }
    script = function / stack.function("RelayFunction")["Handler"]
    with tempfile.TemporaryFile() as log:
        relay = subprocess.Popen([script], cwd="/", env=environment, stdout=log, stderr=log)
        try:
            status = status_of(relay, port, variables["AWS_LWA_READINESS_CHECK_PATH"])
        finally:
            relay.kill()
            relay.wait()
        logged = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
    assert str(status) == variables["AWS_LWA_READINESS_CHECK_HEALTHY_STATUS"], logged


def status_of(server: subprocess.Popen[bytes], port: int, path: str) -> int | None:
    """The status of an answer, once there is one; None where the server ends, or takes half a minute."""
    for _ in range(600):
        if server.poll() is not None:
            return None
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
            connection.request("GET", path)
            return connection.getresponse().status
        time.sleep(0.05)
    return None


def test_built_function_runs(build: Callable[[str], Path], python313: Path) -> None:
    folder = build("x86_64")
    says_hello(folder / "ApiFunction", folder / "TokenizerLayer" / "tokenizer", python313)


def test_built_relay_becomes_ready(
    build: Callable[[str], Path], python313: Path, template: dict[str, Any]
) -> None:
    folder = build("x86_64")
    becomes_ready(folder / "RelayFunction", folder / "TokenizerLayer" / "tokenizer", python313, template)


def test_package_built_for_this_python_runs(tmp_path: Path, template: dict[str, Any]) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    architecture = next(name for name, (machine, _) in MACHINES.items() if machine == platform.machine())
    variables = (f"ARTIFACTS_DIR={tmp_path}", f"PYTHON_VERSION={version}", f"ARCHITECTURE={architecture}")
    run("make", "-C", "handlers", "build-ApiFunction", *variables)
    run("make", "-C", "layers/tokenizer", "build-TokenizerLayer", f"ARTIFACTS_DIR={tmp_path / 'layer'}")
    says_hello(tmp_path, tmp_path / "layer" / "tokenizer", sys.executable)
    becomes_ready(tmp_path, tmp_path / "layer" / "tokenizer", sys.executable, template)


@pytest.mark.usefixtures("python313")
def test_sources_are_compiled(build: Callable[[str], Path]) -> None:
    folder = build("x86_64") / "ApiFunction"
    for source in folder.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        # Flags 1: valid without a look at the source.
        assert compiled.read_bytes()[4:8] == b"\1\0\0\0", source


def test_says_what_is_not_compiled() -> None:
    plan = run("make", "-C", "handlers", "-n", "build-ApiFunction", "ARTIFACTS_DIR=/nowhere", "RUNTIME_PYTHON=")
    assert "compileall" not in plan
    assert "every cold start compiles the sources" in plan
