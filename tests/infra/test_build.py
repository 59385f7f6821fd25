"""The packages that `sam build` makes, and that they run."""

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
from http.client import HTTPConnection, HTTPException
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

import orjson
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fetch import held

from ..benchmarks.runtime import CHAT, Runtime, http_event
from .building import built, run
from .stack import ROOT, stack

RUNTIME: Final = ROOT / ".cache" / "python3.13"
MACHINES: Final = {"x86_64": ("x86_64", 0x3E), "arm64": ("aarch64", 0xB7)}
"""Architecture → what file names call it, and its number in an ELF file."""
UPSTREAMS: Final = '{"gpu": "http://127.0.0.1:9"}'
"""Nobody is there."""
NOT_DEPLOYED: Final = {"huggingface-hub"}
"""What tokenizers needs only to download."""
PACKAGED: Final = ("ApiFunction", "BatchFunction", "RelayFunction")


@pytest.fixture(scope="session")
def python313() -> Path:
    """A Python of the function's version with the runtime client; made where it is not there yet.

    Python 3.13 is no prerequisite: where there is none, the package is still run, built for this Python.
    """
    interpreter = RUNTIME / "bin" / "python"
    with held(RUNTIME.parent):
        if not (interpreter.is_file() and (RUNTIME / "complete").is_file()):
            found = run("make", "--no-print-directory", "-C", "handlers", "runtime-python").strip()
            if not found:
                pytest.skip("no Python 3.13 found")
            run(found, "-m", "venv", "--clear", RUNTIME)
            run(
                interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "awslambdaric>=3"
            )
            (RUNTIME / "complete").touch()
    return interpreter


@pytest.mark.parametrize(("architecture", "resource"), [("x86_64", ""), ("arm64", "ApiFunction")])
def test_function_folder(architecture: str, resource: str) -> None:
    folder = built(architecture, resource) / "ApiFunction"
    handlers = {f"{path.stem}.py" for path in (ROOT / "handlers").glob("*.py")} - {"authorizer.py"}
    assert {"api.py", "batch.py", "relay.py"} <= handlers
    for name in (*handlers, "derender/http/app.py", "fastapi/__init__.py", "mangum/__init__.py"):
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


def test_the_functions_are_one_package() -> None:
    of_api, *others = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (built("x86_64") / name for name in PACKAGED)
    )
    for each in others:
        assert each == of_api


def test_the_authorizer_is_a_package_of_its_own() -> None:
    folder = built("x86_64") / "AuthorizerFunction"
    assert [path.name for path in folder.iterdir()] == ["authorizer.py"]


def test_handlers_are_in_their_packages() -> None:
    made = stack(Authorization="api-key", Relay="rest-api", Upstreams=UPSTREAMS)
    functions = made.of_type("AWS::Lambda::Function")
    assert functions.keys() == {"AuthorizerFunction", *PACKAGED}
    for name, function in functions.items():
        module, _, _ = function["Handler"].partition(".")
        kind = "sh" if function["Handler"].endswith(".sh") else "py"
        assert (built("x86_64") / name / f"{module}.{kind}").is_file(), name


def test_the_relays_script_is_executable() -> None:
    for folder in (ROOT / "handlers", built("x86_64") / "RelayFunction"):
        assert (folder / "relay.sh").stat().st_mode & 0o555 == 0o555


def test_requirements_are_complete() -> None:
    installed = {
        canonicalize_name(each.name): each
        for each in distributions(path=[str(built("x86_64") / "ApiFunction")])
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [
        *project["dependencies"],
        *project["optional-dependencies"]["functions"],
        *(line for each in installed.values() for line in each.requires or ()),
    ]
    environment = {"python_version": "3.13", "python_full_version": "3.13.0", "extra": ""}
    for requirement in map(Requirement, needed):
        name = canonicalize_name(requirement.name)
        if name in NOT_DEPLOYED or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        assert name in installed, f"{requirement} is not in handlers/requirements.txt"
        assert requirement.specifier.contains(installed[name].version, prereleases=True), requirement
    assert not NOT_DEPLOYED & installed.keys()


def test_layer_folder() -> None:
    folder = built("x86_64") / "TokenizerLayer"
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
    run(
        "make",
        "-C",
        tmp_path / "source",
        "build-TokenizerLayer",
        f"ARTIFACTS_DIR={tmp_path / 'layer'}",
    )
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


def becomes_ready(function: Path, layer: Path, python: Path | str) -> None:
    """Start a built package as the Web Adapter does, with the template's variables, and ask what it asks."""
    made = stack(Relay="function-url", Upstreams=UPSTREAMS)
    variables = made.variables("RelayFunction")
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
    script = function / made.properties("RelayFunction")["Handler"]
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


def test_built_function_runs(python313: Path) -> None:
    folder = built("x86_64")
    says_hello(folder / "ApiFunction", folder / "TokenizerLayer" / "tokenizer", python313)


def test_built_relay_becomes_ready(python313: Path) -> None:
    folder = built("x86_64")
    becomes_ready(folder / "RelayFunction", folder / "TokenizerLayer" / "tokenizer", python313)


def test_built_authorizer_runs(python313: Path) -> None:
    event = {"version": "2.0", "headers": {"authorization": "Bearer unknown"}}
    folder = built("x86_64") / "AuthorizerFunction"
    with Runtime(folder, handler="authorizer.handler", python=python313) as runtime:
        assert runtime.invoke(event) == {"isAuthorized": False}


def test_package_built_for_this_python_runs(tmp_path: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    architecture = next(name for name, (machine, _) in MACHINES.items() if machine == platform.machine())
    variables = (f"ARTIFACTS_DIR={tmp_path}", f"PYTHON_VERSION={version}", f"ARCHITECTURE={architecture}")
    run("make", "-C", "handlers", "build-ApiFunction", *variables)
    run("make", "-C", "layers/tokenizer", "build-TokenizerLayer", f"ARTIFACTS_DIR={tmp_path / 'layer'}")
    says_hello(tmp_path, tmp_path / "layer" / "tokenizer", sys.executable)
    becomes_ready(tmp_path, tmp_path / "layer" / "tokenizer", sys.executable)


@pytest.mark.usefixtures("python313")
def test_sources_are_compiled() -> None:
    folder = built("x86_64") / "ApiFunction"
    for source in folder.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        # Flags 1: valid without a look at the source.
        assert compiled.read_bytes()[4:8] == b"\1\0\0\0", source


def test_says_what_is_not_compiled() -> None:
    plan = run("make", "-C", "handlers", "-n", "build-ApiFunction", "ARTIFACTS_DIR=/nowhere", "RUNTIME_PYTHON=")
    assert "compileall" not in plan
    assert "every cold start compiles the sources" in plan
