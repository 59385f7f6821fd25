"""One setting, the runtime in template.yaml, says which Python runs, builds and tests the functions."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import Final

import pytest

from layer_compiler.publishing.lambda_layer import RUNTIMES

from .building import run
from .stack import INFRA, ROOT, RUNTIME, TEMPLATE, read

VERSION: Final = RUNTIME.removeprefix("python")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_all_functions_and_layers_have_the_runtime() -> None:
    runtimes = [*RUNTIMES]
    for path in (TEMPLATE, *INFRA.glob("*.yaml")):
        for resource in read(path)["Resources"].values():
            properties = resource.get("Properties", {})
            runtimes += properties.get("CompatibleRuntimes", [])
            if resource["Type"] == "AWS::Serverless::Function" and path != TEMPLATE:
                runtimes.append(properties["Runtime"])
    assert len(runtimes) >= 4
    assert {*runtimes} == {RUNTIME}


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_the_build_is_for_the_runtime(architecture: str) -> None:
    makefile = INFRA / "build" / architecture / "Makefile"
    target = ("build-ApiFunction", "ARTIFACTS_DIR=/nowhere")
    # Images of Python set the variable to the version of their own.
    image = {"PYTHON_VERSION": "3.1"}
    for command in (("-f", makefile, *target), target):
        plan = run("make", "--dry-run", "-C", "handlers", *command, environment=image)
        assert f"--python-version {VERSION} " in plan


def test_setup_chooses_the_python_of_the_runtime() -> None:
    plan = run("make", "--dry-run", "--always-make", "setup", environment={"PYTHON": f"python{VERSION}"})
    assert f"python{VERSION} -m venv" in plan


def test_setup_says_which_python_is_missing() -> None:
    plan = run("make", "--dry-run", "--always-make", "setup", "PYTHON=")
    assert f"Found no Python {VERSION}" in plan


def test_the_tests_run_on_a_python_that_the_project_promises() -> None:
    tested = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert {f"Programming Language :: Python :: {each}" for each in (tested, VERSION)} <= {
        *PROJECT["classifiers"]
    }


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/deploy.md", "docs/cost.md"])
def test_pages_name_the_runtime(page: str) -> None:
    least = PROJECT["requires-python"].removeprefix(">=")
    named = {*re.findall(r"Python (3\.\d+)", (ROOT / page).read_text(encoding="utf-8"))}
    assert VERSION in named
    assert named <= {least, VERSION}
