"""The parameters of template.yaml: their form, refused combinations, and the settings they become."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from cfnlint import api as cfnlint  # type: ignore[import-untyped]

from .parameters import API_KEY, DIGEST, FUNCTION_URL, JWT, KEY, NETWORK, OPEN, REST_API, TOPIC
from .stack import INFRA, ROOT, TEMPLATE, read, stack

if TYPE_CHECKING:
    from pathlib import Path

PARAMETERS: Final = read(TEMPLATE)["Parameters"]


@pytest.mark.parametrize("path", [TEMPLATE, *sorted(INFRA.glob("*.yaml"))], ids=lambda path: path.name)
def test_templates_lint(path: Path) -> None:
    assert cfnlint.lint_file(path) == []


def test_each_parameter_is_described_and_in_one_group() -> None:
    groups = read(TEMPLATE)["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert [name for group in groups for name in group["Parameters"]] == list(PARAMETERS)
    assert all(len(each["Description"]) >= 15 and "Default" in each for each in PARAMETERS.values())


def test_the_documentation_lists_each_parameter_with_its_default() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    table = re.search(r"^\| parameter \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert table
    listed = {
        name: default.strip("` ")
        for names, default in re.findall(r"^\| (`.*?) \| (.*?) ?\|", table[0], re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == {name: str(each["Default"]) for name, each in PARAMETERS.items()}


def test_secrets_are_not_echoed() -> None:
    hidden = {name for name, parameter in PARAMETERS.items() if parameter.get("NoEcho")}
    assert hidden == {"ApiKeyDigests", "RenderUrl", "StateKey", "Upstreams"}
    # `sam deploy --guided` shows no default for them and accepts no empty answer.
    assert {PARAMETERS[name]["Default"] for name in hidden} == {"none"}


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("ApiKeyDigests", f"{DIGEST},{DIGEST}", True),
        ("ApiKeyDigests", "a plain key", False),
        ("ApiKeyDigests", DIGEST.upper(), False),
        ("StateKey", "too short", False),
        ("StateKey", "0123456789abcdef,0123456789abcdef", True),
        ("JwtIssuer", "id.example", False),
        ("JwtAudience", "a, b", False),
        ("BatchBucket", "My_Bucket", False),
        ("KmsKeyArn", KEY, True),
        ("KmsKeyArn", "alias/derender", False),
        ("AlarmTopic", TOPIC, True),
        ("AlarmTopic", "me@example.org", False),
        ("CorsOrigins", "https://a.example,https://b.example", True),
        ("CorsOrigins", "https://a.example, https://b.example", False),
        ("RelaySubnets", "subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718", True),
        ("RelaySubnets", "vpc-0a1b2c3d", False),
        ("RelaySecurityGroups", "sg-4e5f6071, sg-0a1b2c3d", False),
    ],
)
def test_patterns_accept_what_is_well_formed(name: str, value: str, fits: bool) -> None:
    assert bool(re.fullmatch(PARAMETERS[name]["AllowedPattern"], value)) == fits
    assert re.fullmatch(PARAMETERS[name]["AllowedPattern"], PARAMETERS[name]["Default"])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        JWT,
        API_KEY,
        OPEN,
        FUNCTION_URL,
        REST_API,
        {**API_KEY, **REST_API},
        {**OPEN, **FUNCTION_URL},
        {**OPEN, **REST_API},
        {"SnapStart": "on"},
        {"ProvisionedConcurrency": "5", "ReservedConcurrency": "100"},
        {"Batch": "off"},
        {"BatchBucket": "files"},
        {**REST_API, **NETWORK},
    ],
)
def test_rules_accept_combinations_that_work(parameters: dict[str, str]) -> None:
    assert stack(**parameters).refusals == []


@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({"Relay": "function-url"}, "needs Upstreams"),
        ({"Relay": "rest-api"}, "needs Upstreams"),
        ({**JWT, "JwtIssuer": ""}, "needs JwtIssuer"),
        ({**JWT, "JwtAudience": ""}, "needs JwtAudience"),
        ({**JWT, **REST_API}, "relay cannot check JSON web tokens"),
        ({**JWT, **FUNCTION_URL}, "relay cannot check JSON web tokens"),
        ({"JwtIssuer": "https://id.example"}, "ignores tokens"),
        ({**OPEN, "JwtAudience": "derender"}, "ignores tokens"),
        ({"Authorization": "api-key"}, "needs ApiKeyDigests"),
        ({**API_KEY, **FUNCTION_URL}, "cannot check API keys"),
        ({**OPEN, "ApiKeyDigests": DIGEST}, "ignores keys"),
        ({"SnapStart": "on", "ProvisionedConcurrency": "1"}, "exclude each other"),
        ({"Batch": "off", "BatchBucket": "files"}, "needs Batch on"),
        ({**REST_API, "RelaySubnets": "subnet-0a1b2c3d"}, "needs RelaySecurityGroups"),
        ({**REST_API, "RelaySecurityGroups": "sg-4e5f6071"}, "needs RelaySubnets"),
        ({**FUNCTION_URL, **NETWORK}, "needs Relay rest-api"),
        (NETWORK, "needs Relay rest-api"),
    ],
)
def test_rules_refuse_combinations_that_do_not(parameters: dict[str, str], refusal: str) -> None:
    (refused,) = stack(**parameters).refusals
    assert refusal in refused


def test_parameters_become_settings() -> None:
    of_batch = {
        "LogLevel": "DERENDER_LOG_LEVEL",
        "Model": "DERENDER_MODEL",
        "ServedModelName": "DERENDER_SERVED_MODEL_NAME",
        "ToolCallParser": "DERENDER_TOOL_CALL_PARSER",
        "ReasoningParser": "DERENDER_REASONING_PARSER",
        "DefaultChatTemplateKwargs": "DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS",
    }
    of_api = {**of_batch, "StateKey": "DERENDER_STATE_KEY"}
    of_relay = {
        **of_api,
        "CorsOrigins": "DERENDER_ALLOWED_ORIGINS",
        "Upstreams": "DERENDER_UPSTREAMS",
        "RenderUrl": "DERENDER_RENDER_URL",
    }
    fixed = {"DERENDER_SERVICE": "derender", "DERENDER_MAX_BODY_BYTES": "33554432"}
    of_requests = {**fixed, "DERENDER_MAX_ANSWER_BYTES": "33554432"}
    # The relay fills in ${TOKEN}, the template must not.
    values = {parameter: f"{parameter} with ${{TOKEN}}" for parameter in of_relay}
    made = stack(Relay="rest-api", **values)
    batch, relay = made.nested["BatchStack"], made.nested["RelayStack"]
    for variables, settings, others in (
        (made.variables("ApiFunction"), of_api, of_requests),
        (batch.variables("BatchFunction"), of_batch, fixed),
        (relay.variables("RelayFunction"), of_relay, {**of_requests, "DERENDER_UPSTREAM_TIMEOUT": "120"}),
    ):
        expected = others | {setting: values[parameter] for parameter, setting in settings.items()}
        assert {name: each for name, each in variables.items() if name.startswith("DERENDER_")} == expected


def test_a_secret_that_is_none_leaves_its_setting_empty() -> None:
    made = stack(**FUNCTION_URL)
    assert made.variables("ApiFunction")["DERENDER_STATE_KEY"] == ""
    relay = made.nested["RelayStack"].variables("RelayFunction")
    assert relay["DERENDER_ALLOWED_ORIGINS"] == ""
    assert (relay["DERENDER_STATE_KEY"], relay["DERENDER_RENDER_URL"]) == ("", "")


@pytest.mark.parametrize("environment", ["default", "prod"])
def test_samconfig_sets_known_parameters_and_names_no_account(environment: str) -> None:
    text = (ROOT / "samconfig.toml").read_text(encoding="utf-8")
    deploy = tomllib.loads(text)[environment]["deploy"]["parameters"]
    overrides = dict(each.split("=", 1) for each in deploy["parameter_overrides"])
    assert stack(**overrides).refusals == []
    for name, value in overrides.items():
        assert not PARAMETERS[name].get("NoEcho"), name
        assert value in map(str, PARAMETERS[name].get("AllowedValues", [value])), name
    assert {"CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"} == set(deploy["capabilities"].split())
    assert deploy.get("confirm_changeset", False) == (environment == "prod")
    assert not re.search(r"\b[0-9]{12}\b|arn:|profile|region", text.partition("version =")[2])
