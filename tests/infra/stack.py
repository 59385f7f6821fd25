"""What CloudFormation makes of the templates: translated by SAM, with parameters and functions filled in."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from samtranslator.translator.transform import transform  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Template = dict[str, Any]
    Resource = dict[str, Any]

__all__ = ["ACCOUNT", "PSEUDO", "REGION", "ROOT", "Stack", "read", "stack", "translate"]

ROOT: Final = Path(__file__).parents[2]
REGION: Final = "eu-central-1"
ACCOUNT: Final = "123456789012"
PSEUDO: Final = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackName": "derender",
    "AWS::URLSuffix": "amazonaws.com",
}
SHAPES: Final = {
    ("AWS::Lambda::Alias", "Ref"): f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{{FunctionName}}:{{Name}}",
    ("AWS::Lambda::Url", "FunctionUrl"): f"https://id.lambda-url.{REGION}.on.aws/",
}
"""What resources return that other parts of the template take apart. Of any other, `${Name}` stands for it."""
NO_VALUE: Final = object()


class Stack:
    """A stack, as far as its template and parameters say what it is.

    Args:
        template: Plain CloudFormation.
        parameters: Name → value; of those that are not given the default.

    Attributes:
        refusals: What its rules have against the parameters. CloudFormation makes nothing of such a stack.
        resources: Logical name → type and properties, of the resources that are made.
        outputs: Name → description and value.
    """

    def __init__(self, template: Template, parameters: Mapping[str, str]) -> None:
        assert parameters.keys() <= template.get("Parameters", {}).keys()
        defaults = {name: str(each.get("Default", "")) for name, each in template.get("Parameters", {}).items()}
        self.template = template
        self.parameters = {**defaults, **parameters}
        self._values = {**PSEUDO, **self.parameters}
        self._conditions = template.get("Conditions", {})
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
        """Logical name → properties, of its resources of a type."""
        return {
            logical_name: each.get("Properties", {})
            for logical_name, each in self.resources.items()
            if each["Type"] == name
        }

    def properties(self, name: str) -> Resource:
        """A resource's properties."""
        properties: Resource = self.resources[name]["Properties"]
        return properties

    def variables(self, name: str) -> dict[str, str]:
        """A function's environment."""
        variables: dict[str, str] = self.properties(name)["Environment"]["Variables"]
        return variables

    def output(self, name: str) -> str:
        """An output's value."""
        return str(self.outputs[name]["Value"])

    @property
    def nested(self) -> dict[str, Stack]:
        """Logical name → a stack in it."""
        return {
            name: Stack(read(ROOT / each["TemplateURL"]), each.get("Parameters", {}))
            for name, each in self.of_type("AWS::CloudFormation::Stack").items()
        }

    def walk(self) -> Iterator[Stack]:
        """This stack and all in it."""
        yield self
        for each in self.nested.values():
            yield from each.walk()

    def _made(self, section: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: each for name, each in section.items() if self._holds(each.get("Condition"))}
        return {name: self._resolved(each) for name, each in wanted.items()}

    def _holds(self, condition: str | None) -> bool:
        return condition is None or bool(self._resolved(self._conditions[condition]))

    def _resolved(self, value: Any) -> Any:
        match value:
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
            case list():
                return [each for each in map(self._resolved, value) if each is not NO_VALUE]
        return value

    def _referred(self, name: str) -> str:
        return self._values[name] if name in self._values else self._returned(name, "Ref")

    def _returned(self, name: str, attribute: str) -> str:
        resource = self.template["Resources"][name]
        if shape := SHAPES.get((resource["Type"], attribute)):
            return shape.format_map(self._resolved(resource["Properties"]))
        return f"${{{name}}}" if attribute == "Ref" else f"${{{name}.{attribute}}}"

    def _substituted(self, text: str, names: dict[str, Any]) -> str:
        for name, value in {**self._values, **names}.items():
            text = text.replace(f"${{{name}}}", str(value))
        return text


def stack(**parameters: str) -> Stack:
    """The application's stack."""
    # The only parameter that SAM itself looks at.
    preference = parameters.get("DeploymentPreference")
    return Stack(_translated(preference), parameters)


@cache
def _translated(preference: str | None) -> Template:
    return translate(read(ROOT / "template.yaml"), {"DeploymentPreference": preference} if preference else {})


@cache
def read(path: Path) -> Template:
    """A template as it is written. Nobody changes it."""
    template: Template = yaml_parse(path.read_text(encoding="utf-8"))
    return template


def translate(template: Template, parameters: Mapping[str, str]) -> Template:
    """What SAM makes of a template when CloudFormation asks it to. Folders are taken for uploaded."""
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
    """The managed policies that are known by their names, of which the templates use none."""

    def load(self) -> dict[str, str]:
        return {}
