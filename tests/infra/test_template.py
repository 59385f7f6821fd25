"""The template, and what `sam build` makes of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tomllib
from functools import cache
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


@pytest.fixture
def resources(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """The template as CloudFormation sees it: type → the properties of its resources."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    template = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
    template["Resources"]["ApiFunction"]["Properties"]["CodeUri"] = "s3://bucket/function"
    template["Resources"]["TokenizerLayer"]["Properties"]["ContentUri"] = "s3://bucket/layer"

    class Policies:
        def load(self) -> dict[str, str]:
            return {}

    by_type: dict[str, list[dict[str, Any]]] = {}
    for resource in transform(template, {}, Policies())["Resources"].values():
        by_type.setdefault(resource["Type"], []).append(resource["Properties"])
    return by_type


def test_validates() -> None:
    assert "is a valid SAM Template" in sam("validate", "--lint")


def test_every_route_needs_signed_requests(resources: dict[str, list[dict[str, Any]]]) -> None:
    (api,) = resources["AWS::ApiGatewayV2::Api"]
    routes = [route for path in api["Body"]["paths"].values() for route in path.values()]
    assert routes
    for route in routes:
        assert route["security"] == [{"AWS_IAM": []}]


def test_the_function_may_only_write_logs(resources: dict[str, list[dict[str, Any]]]) -> None:
    (role,) = resources["AWS::IAM::Role"]
    (policy,) = role["ManagedPolicyArns"]
    assert policy.endswith("/AWSLambdaBasicExecutionRole")
    assert "Policies" not in role


@pytest.mark.parametrize("architecture", MACHINES)
def test_function_folder(build: Callable[[str], Path], architecture: str) -> None:
    folder = build(architecture) / "ApiFunction"
    for name in ("api.py", "derender/app.py", "fastapi/__init__.py", "mangum/__init__.py"):
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


def test_built_function_runs(build: Callable[[str], Path], python313: Path) -> None:
    folder = build("x86_64")
    says_hello(folder / "ApiFunction", folder / "TokenizerLayer" / "tokenizer", python313)


def test_package_built_for_this_python_runs(tmp_path: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    architecture = next(name for name, (machine, _) in MACHINES.items() if machine == platform.machine())
    variables = (f"ARTIFACTS_DIR={tmp_path}", f"PYTHON_VERSION={version}", f"ARCHITECTURE={architecture}")
    run("make", "-C", "handlers", "build-ApiFunction", *variables)
    run("make", "-C", "layers/tokenizer", "build-TokenizerLayer", f"ARTIFACTS_DIR={tmp_path / 'layer'}")
    says_hello(tmp_path, tmp_path / "layer" / "tokenizer", sys.executable)


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
