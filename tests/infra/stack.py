"""The stacks that CloudFormation makes of the templates, which SAM translates first."""

from __future__ import annotations

import copy
import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from samtranslator.translator.transform import transform  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Template = dict[str, Any]
    Resource = dict[str, Any]

__all__ = ["ACCOUNT", "INFRA", "REGION", "ROOT", "RUNTIME", "TEMPLATE", "Stack", "read", "stack", "translate"]

ROOT: Final = Path(__file__).parents[2]
TEMPLATE: Final = ROOT / "template.yaml"
INFRA: Final = ROOT / "infra"
REGION: Final = "eu-central-1"
ACCOUNT: Final = "123456789012"
PSEUDO: Final = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::URLSuffix": "amazonaws.com",
}
SHAPES: Final = {
    ("AWS::Lambda::Alias", "Ref"): f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{{FunctionName}}:{{Name}}",
    ("AWS::Lambda::Url", "FunctionUrl"): f"https://id.lambda-url.{REGION}.on.aws/",
}
"""Values of resources that the templates take apart. Any other value is written `${Resource.Attribute}`."""
NO_VALUE: Final = object()
REFERENCE: Final = re.compile(r"\$\{([A-Za-z0-9:]+)(?:\.([A-Za-z0-9.]+))?\}")


class Stack:
    """A stack, as its template and parameters define it.

    Attributes:
        name: Its `AWS::StackName`.
        folder: The folder that `TemplateURL` is relative to.
        template: Plain CloudFormation.
        parameters: Name → value, with the defaults filled in.
        refusals: The messages of the rules that the parameters break. CloudFormation refuses such a stack.
        resources: Logical name → type and properties of the resources whose condition holds.
        outputs: Name → description and value.

    Args:
        template: Plain CloudFormation.
        parameters: Name → value.
        name: Its `AWS::StackName`.
        folder: The folder that `TemplateURL` is relative to.
    """

    def __init__(
        self, template: Template, parameters: Mapping[str, str], name: str = "derender", folder: Path = ROOT
    ) -> None:
        declared = template.get("Parameters", {})
        assert parameters.keys() <= declared.keys(), parameters.keys() - declared.keys()
        assert {each for each in declared if "Default" not in declared[each]} <= parameters.keys()
        defaults = {each: str(declared[each]["Default"]) for each in declared.keys() - parameters.keys()}
        self.name = name
        self.template = template
        self.parameters = {**defaults, **parameters}
        self.folder = folder
        self._values = {**PSEUDO, "AWS::StackName": name, **self.parameters}
        self._conditions: dict[str, bool] = {}
        self.refusals = [
            each["AssertDescription"]
            for rule in template.get("Rules", {}).values()
            if self._resolved(rule.get("RuleCondition", True))
            for each in rule["Assertions"]
            if not self._resolved(each["Assert"])
        ]
        self.resources = self._made(template["Resources"])
        self.outputs = self._made(template.get("Outputs", {}))

    def of_type(self, name: str) -> dict[str, Resource]:
        """Return logical name → properties of the resources of a type."""
        return {
            logical_name: each.get("Properties", {})
            for logical_name, each in self.resources.items()
            if each["Type"] == name
        }

    def properties(self, name: str) -> Resource:
        """Return the properties of a resource."""
        properties: Resource = self.resources[name]["Properties"]
        return properties

    def variables(self, name: str) -> dict[str, str]:
        """Return the environment variables of a function."""
        variables: dict[str, str] = self.properties(name)["Environment"]["Variables"]
        return variables

    def output(self, name: str) -> str:
        """Return the value of an output."""
        return str(self.outputs[name]["Value"])

    @cached_property
    def nested(self) -> dict[str, Stack]:
        """Logical name → nested stack."""
        return {
            name: _nested(
                self.folder / each["TemplateURL"],
                frozenset(each.get("Parameters", {}).items()),
                f"{self.name}-{name}-1A2B3C",
            )
            for name, each in self.of_type("AWS::CloudFormation::Stack").items()
        }

    def walk(self) -> Iterator[Stack]:
        """Yield this stack and all stacks in it."""
        yield self
        for each in self.nested.values():
            yield from each.walk()

    def _made(self, section: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: each for name, each in section.items() if self._holds(each.get("Condition"))}
        return {name: self._resolved(each) for name, each in wanted.items()}

    def _holds(self, condition: str | None) -> bool:
        if condition is None:
            return True
        if condition not in self._conditions:
            self._conditions[condition] = bool(self._resolved(self.template["Conditions"][condition]))
        return self._conditions[condition]

    def _resolved(self, value: Any) -> Any:
        match value:
            case str() | int() | float():
                return value
            case list():
                return [each for each in map(self._resolved, value) if each is not NO_VALUE]
            case {"Ref": "AWS::NoValue"}:
                return NO_VALUE
            case {"Ref": name}:
                return self._referred(name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._returned(name, attribute)
            case {"Condition": str(name)} if len(value) == 1:
                return self._holds(name)
            case {"Fn::Equals": [left, right]}:
                return str(self._resolved(left)) == str(self._resolved(right))
            case {"Fn::Not": [condition]}:
                return not self._resolved(condition)
            case {"Fn::And": conditions}:
                return all(map(self._resolved, conditions))
            case {"Fn::Or": conditions}:
                return any(map(self._resolved, conditions))
            case {"Fn::If": [condition, then, otherwise]}:
                return self._resolved(then if self._holds(condition) else otherwise)
            case {"Fn::Join": [separator, parts]}:
                return separator.join(map(str, self._resolved(parts)))
            case {"Fn::Split": [separator, text]}:
                return self._resolved(text).split(separator)
            case {"Fn::Select": [index, parts]}:
                return self._resolved(parts)[int(index)]
            case {"Fn::Sub": [text, {**names}]}:
                return self._substituted(text, self._resolved(names))
            case {"Fn::Sub": str(text)}:
                return self._substituted(text, {})
            case dict():
                resolved = {name: self._resolved(each) for name, each in value.items()}
                return {name: each for name, each in resolved.items() if each is not NO_VALUE}
        return value

    def _referred(self, name: str) -> str:
        return self._values[name] if name in self._values else self._returned(name, "Ref")

    def _returned(self, name: str, attribute: str) -> str:
        resource = self.template["Resources"][name]
        assert self._holds(resource.get("Condition")), f"{name} is not made"
        if shape := SHAPES.get((resource["Type"], attribute)):
            return shape.format_map(self._resolved(resource["Properties"]))
        return f"${{{name}}}" if attribute == "Ref" else f"${{{name}.{attribute}}}"

    def _substituted(self, text: str, names: dict[str, Any]) -> str:
        def value(found: re.Match[str]) -> str:
            name, attribute = found.groups()
            if attribute:
                return self._returned(name, attribute)
            return str(names[name] if name in names else self._referred(name))

        return REFERENCE.sub(value, text)


@cache
def _nested(path: Path, parameters: frozenset[tuple[str, str]], name: str) -> Stack:
    given = dict(parameters)
    return Stack(_translated(path, given.get("DeploymentPreference")), given, name, path.parent)


def stack(**parameters: str) -> Stack:
    """Return the stack of the application."""
    return Stack(_translated(TEMPLATE, parameters.get("DeploymentPreference")), parameters)


@cache
def _translated(path: Path, preference: str | None) -> Template:
    template = read(path)
    if "Transform" not in template:
        return template
    # The only parameter that SAM itself reads.
    return translate(template, {"DeploymentPreference": preference} if preference else {})


@cache
def read(path: Path) -> Template:
    """Read a template. Nobody may change it."""
    template: Template = yaml_parse(path.read_text(encoding="utf-8"))
    return template


RUNTIME: Final = read(TEMPLATE)["Globals"]["Function"]["Runtime"]
"""What the functions run on. The build, the tests and the documentation follow it."""


def translate(template: Template, parameters: Mapping[str, str]) -> Template:
    """Translate a template as SAM does when CloudFormation asks it to. Folders count as uploaded."""
    source = copy.deepcopy(template)
    for each in (
        source.get("Globals", {}).get("Function", {}),
        *map(_properties, source["Resources"].values()),
    ):
        for code in {"CodeUri", "ContentUri"} & each.keys():
            if not str(each[code]).startswith("s3://"):
                each[code] = f"s3://packages/{each[code]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        translated: Template = transform(source, dict(parameters), _NoPolicies())
    return translated


def _properties(resource: Resource) -> Resource:
    properties: Resource = resource.get("Properties", {})
    return properties


class _NoPolicies:
    """The managed policies that SAM knows by name. The templates use none."""

    def load(self) -> dict[str, str]:
        return {}
