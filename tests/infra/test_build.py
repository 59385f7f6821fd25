"""The packages that `sam build` makes: what they hold, and that they run."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from http.client import HTTPConnection, HTTPException
from importlib.metadata import distributions
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.api_client import CHAT
from tests.support.lambda_emulator import Runtime, http_event

from .building import ARCHITECTURE, built, run, runtime_python, wheels
from .parameters import API_KEY, FUNCTION_URL, REST_API
from .stack import INFRA, ROOT, RUNTIME, TEMPLATE, read, stack

MACHINES: Final = {"x86_64": ("x86_64", 0x3E), "arm64": ("aarch64", 0xB7)}
"""Architecture → its name in file names, and its number in an ELF file."""
NOT_DEPLOYED: Final = {"huggingface-hub"}
"""Packages that tokenizers needs only for downloads."""
API: Final = "ApiFunction"
RELAY: Final = "RelayStack/RelayFunction"
VERSION: Final = RUNTIME.removeprefix("python")
CACHE_TAG: Final = f"cpython-{VERSION.replace('.', '')}"
PACKAGED: Final = (API, "BatchStack/BatchFunction", RELAY)


class Package(NamedTuple):
    """A built package, and a Python that it was built for."""

    function: Path
    layer: Path
    python: Path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The package that SAM builds, or one for this Python on machines without the runtime's."""
    if python := runtime_python():
        return Package(built() / API, built() / "TokenizerLayer" / "tokenizer", python)
    function, layer = tmp_path_factory.mktemp("function"), tmp_path_factory.mktemp("layer")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    settings = (f"ARTIFACTS_DIR={function}", f"ARCHITECTURE={ARCHITECTURE}", f"PYTHON_VERSION={version}")
    run("make", "-C", "handlers", "build-ApiFunction", *settings)
    run("make", "-C", "layers/tokenizer", "build-TokenizerLayer", f"ARTIFACTS_DIR={layer}")
    return Package(function, layer / "tokenizer", Path(sys.executable))


def test_the_package_has_the_handlers_and_their_libraries() -> None:
    folder = built() / API
    handlers = {f"{path.stem}.py" for path in (ROOT / "handlers").glob("*.py")} - {"authorizer.py"}
    assert {"api.py", "batch.py", "relay.py"} <= handlers
    for name in (*handlers, "derender/http/app.py", "fastapi/__init__.py", "mangum/__init__.py"):
        assert (folder / name).is_file(), name
    extensions = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.so")}
    machine, number = MACHINES[ARCHITECTURE]
    assert {
        f"msgspec/_core.{CACHE_TAG}-{machine}-linux-gnu.so",
        f"orjson/orjson.{CACHE_TAG}-{machine}-linux-gnu.so",
        f"pydantic_core/_pydantic_core.{CACHE_TAG}-{machine}-linux-gnu.so",
        "tokenizers/tokenizers.abi3.so",
    } <= extensions.keys()
    for path in extensions.values():
        assert int.from_bytes(path.read_bytes()[18:20], "little") == number, path


def test_the_wheels_for_the_other_processor_are_for_it() -> None:
    (other,) = MACHINES.keys() - {ARCHITECTURE}
    names = wheels(other)
    requirements = (ROOT / "handlers" / "requirements.txt").read_text(encoding="utf-8")
    assert len(names) == requirements.count("==")
    compiled = [name for name in names if not name.endswith("-none-any.whl")]
    assert len(compiled) >= 5
    assert all(name.endswith(f"_{MACHINES[other][0]}.whl") for name in compiled), compiled


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (TEMPLATE, "ApiFunction"),
        (INFRA / "batch.yaml", "BatchFunction"),
        (INFRA / "relay.yaml", "RelayFunction"),
    ],
)
def test_the_parameter_chooses_the_makefile_of_the_processor(path: Path, name: str) -> None:
    metadata = read(path)["Resources"][name]["Metadata"]
    assert metadata["ContextPath"] == {"Fn::Sub": "infra/build/${Architecture}"}
    for architecture in MACHINES:
        assert (INFRA / "build" / architecture / "Makefile").is_file()


def test_the_functions_have_the_same_package() -> None:
    of_api, *others = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (built() / name for name in PACKAGED)
    )
    for each in others:
        assert each == of_api


def test_the_authorizer_has_a_package_of_its_own() -> None:
    folder = built() / "AuthorizerFunction"
    assert [path.name for path in folder.iterdir()] == ["authorizer.py"]


def test_handlers_are_in_their_packages() -> None:
    made = stack(**API_KEY, **REST_API)
    for name in ("AuthorizerFunction", *PACKAGED):
        *nested, function = name.split("/")
        handler = (made.nested[nested[0]] if nested else made).properties(function)["Handler"]
        module, _, attribute = handler.partition(".")
        assert (built() / name / (handler if attribute == "sh" else f"{module}.py")).is_file(), name


def test_the_script_of_the_relay_is_executable() -> None:
    for folder in (ROOT / "handlers", built() / RELAY):
        assert (folder / "relay.sh").stat().st_mode & 0o555 == 0o555


def test_built_templates_have_no_aliases() -> None:
    """CloudFormation understands no YAML aliases, so `sam build` has to expand them."""
    paths = [*built().glob("**/template.yaml")]
    assert len(paths) == 1 + len({*INFRA.glob("*.yaml")} - {INFRA / "account.yaml"})
    for path in paths:
        with path.open(encoding="utf-8") as file:
            assert not any(isinstance(token, yaml.AliasToken) for token in yaml.scan(file)), path


def test_requirements_are_complete() -> None:
    installed = {canonicalize_name(each.name): each for each in distributions(path=[str(built() / API)])}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [
        *project["dependencies"],
        *project["optional-dependencies"]["functions"],
        *(line for each in installed.values() for line in each.requires or ()),
    ]
    environment = {"python_version": VERSION, "python_full_version": f"{VERSION}.0", "extra": ""}
    for requirement in map(Requirement, needed):
        name = canonicalize_name(requirement.name)
        if name in NOT_DEPLOYED or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        assert name in installed, f"{requirement} is not in handlers/requirements.txt"
        assert requirement.specifier.contains(installed[name].version, prereleases=True), requirement
    assert not NOT_DEPLOYED & installed.keys()


def test_the_layer_has_the_bundled_vocabulary() -> None:
    folder = built() / "TokenizerLayer"
    source = ROOT / "layers" / "tokenizer" / "default"
    assert sorted(path.name for path in folder.iterdir()) == ["tokenizer"]
    assert list(folder.glob("tokenizer/*.vocab"))
    for path in source.iterdir():
        assert (folder / "tokenizer" / path.name).read_bytes() == path.read_bytes()


def test_the_function_derenders(package: Package) -> None:
    choice = {"index": 0, "token_ids": [9707, 11, 1879, 0, 151_645], "finish_reason": "stop"}
    body = {"generate_response": {"request_id": "chatcmpl-1", "choices": [choice]}, "chat_request": {}}
    environment = {"DERENDER_LAYER": str(package.layer), "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    with Runtime(package.function, environment=environment, python=package.python) as runtime:
        answer = runtime.invoke(http_event(CHAT, orjson.dumps(body).decode()))
    assert answer["statusCode"] == 200
    assert orjson.loads(answer["body"])["choices"][0]["message"]["content"] == "Hello, world!"


def test_the_relay_becomes_ready_for_the_web_adapter(package: Package) -> None:
    made = stack(**FUNCTION_URL).nested["RelayStack"]
    variables = made.variables("RelayFunction")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "LANG": "en_US.UTF-8",
        "LAMBDA_TASK_ROOT": str(package.function),
        "PATH": f"{package.python.parent}{os.pathsep}{os.defpath}",
        "PYTHONDONTWRITEBYTECODE": "1",  # /var/task is read-only
        "PYTHONPATH": "/var/runtime",  # Lambda sets it so, without the package's libraries
        **variables,
        "AWS_LWA_PORT": str(port),
        "DERENDER_LAYER": str(package.layer),
    }
    script = package.function / made.properties("RelayFunction")["Handler"]
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
    """Return the status of the first answer, or None if the server ends or stays silent for half a minute."""
    for _ in range(600):
        if server.poll() is not None:
            return None
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
            connection.request("GET", path)
            return connection.getresponse().status
        time.sleep(0.05)
    return None


def test_the_authorizer_runs(package: Package) -> None:
    event = {"version": "2.0", "headers": {"authorization": "Bearer unknown"}}
    folder = built() / "AuthorizerFunction"
    with Runtime(folder, handler="authorizer.handler", python=package.python) as runtime:
        assert runtime.invoke(event) == {"isAuthorized": False}


def test_sources_are_compiled_if_there_is_a_python_of_the_runtime() -> None:
    for source in (built() / API).rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.{CACHE_TAG}.pyc"
        if runtime_python():
            # With the flags 1, Python does not look at the source.
            assert compiled.read_bytes()[4:8] == b"\1\0\0\0", source
        else:
            assert not compiled.exists()


def test_a_build_says_that_sources_are_not_compiled() -> None:
    plan = run("make", "-C", "handlers", "-n", "build-ApiFunction", "ARTIFACTS_DIR=/nowhere", "RUNTIME_PYTHON=")
    assert "compileall" not in plan
    assert "every cold start compiles the sources" in plan
