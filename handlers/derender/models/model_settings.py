"""How each model of a layer is served: the settings and the models' manifests combined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from derender.settings import AUTO, DEFAULT_MAX_MODEL_LEN, NO_PARSER, SettingsError, parser_choices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from derender.settings import PerModel, Settings
    from derender.vocabulary import Manifest

__all__ = ["ModelSettings", "combine"]

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is served.

    Attributes:
        root: The name of its vocabulary.
        names: The names that clients use. Answers have the first if the request names no model.
        max_model_len: Longest sequence accepted, in tokens.
        tool_call_parser: The tool-call parser, if any.
        reasoning_parser: The reasoning parser, if any.
        default_chat_template_kwargs: Arguments of the chat template that requests may override.
    """

    root: str
    names: tuple[str, ...]
    max_model_len: int
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)


class _Layer(NamedTuple):
    """The models that settings can be about."""

    manifests: Mapping[str, Manifest]
    default: str | None

    def values(
        self, variable: str, setting: PerModel[ValueT], form: str, *, unset: ValueT
    ) -> Iterator[tuple[str, ValueT]]:
        """Yield the values of a setting with the models they are for."""
        if setting.default != unset:
            if self.default is None:
                raise SettingsError(
                    f"{variable} has a value for no model in particular, but there is no default model; "
                    f"write {form} for each model, or set DERENDER_MODEL"
                )
            yield self.default, setting.default
        for root, value in setting.by_model.items():
            if root not in self.manifests:
                raise SettingsError(f"{variable} names the model {root!r}; the layer has {self.listed}")
            yield root, value

    @property
    def listed(self) -> str:
        return ", ".join(sorted(self.manifests))


def combine(settings: Settings, manifests: Mapping[str, Manifest]) -> tuple[list[ModelSettings], str | None]:
    """Combine the settings with the manifests of a layer.

    Args:
        settings: The settings.
        manifests: The manifest of each vocabulary, by name.

    Returns:
        How each model is served, the default model first; and the name of the default model's vocabulary, if
        there is a default.

    Raises:
        SettingsError: A setting names a model that the layer does not have, or should name one and does not.
    """
    alone = next(iter(manifests)) if len(manifests) == 1 else None
    layer = _Layer(manifests, settings.model or alone)
    if layer.default is not None and layer.default not in manifests:
        raise SettingsError(f"DERENDER_MODEL is {layer.default!r}; {settings.layer} has {layer.listed}")
    names = _names(layer, settings.served_model_name)
    tool_call_parsers = _parsers(
        layer,
        "DERENDER_TOOL_CALL_PARSER",
        settings.tool_call_parser,
        TOOL_CALL_PARSERS,
        {root: manifest.tool_call_parser for root, manifest in manifests.items()},
    )
    reasoning_parsers = _parsers(
        layer,
        "DERENDER_REASONING_PARSER",
        settings.reasoning_parser,
        REASONING_PARSERS,
        {root: manifest.reasoning_parser for root, manifest in manifests.items()},
    )
    arguments = _choose(
        layer,
        "DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS",
        settings.default_chat_template_kwargs,
        "MODEL=OBJECT",
        "objects",
        unset={},
    )
    models = [
        ModelSettings(
            root,
            names[root],
            _max_model_len(settings.max_model_len, manifests[root].max_model_len, alone=root == alone),
            tool_call_parsers[root],
            reasoning_parsers[root],
            arguments.get(root, {}),
        )
        for root in sorted(manifests, key=lambda root: (root != layer.default, root))
    ]
    return models, layer.default


def _names(layer: _Layer, setting: PerModel[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Name each model: by its own name too, unless it is alone and has others."""
    variable = "DERENDER_SERVED_MODEL_NAME"
    owners = {root: root for root in layer.manifests}
    others: dict[str, dict[str, None]] = {root: {} for root in layer.manifests}
    for root, names in layer.values(variable, setting, "NAME=MODEL", unset=()):
        for name in names:
            if owners.setdefault(name, root) != root:
                raise SettingsError(f"{variable} gives the name {name!r} to {root}, but {owners[name]} has it")
            others[root][name] = None
    return {
        root: tuple(names) if names and len(others) == 1 else tuple({**names, root: None})
        for root, names in others.items()
    }


def _parsers(
    layer: _Layer,
    variable: str,
    setting: PerModel[str],
    known: Collection[str],
    declared: Mapping[str, str | None],
) -> dict[str, str | None]:
    """Choose the parser of each model: that of the setting, or else the one that its manifest declares."""
    chosen = _choose(layer, variable, setting, f"MODEL={setting.default}", "parsers", unset=AUTO)
    parsers: dict[str, str | None] = {}
    for root, declaration in declared.items():
        parser = chosen.get(root, AUTO)
        if parser != AUTO:
            parsers[root] = None if parser == NO_PARSER else parser
        elif declaration in (None, *known):
            parsers[root] = declaration
        else:
            raise SettingsError(
                f"{variable} is auto and the layer names {declaration!r} for {root}, which does not exist; "
                f"set {parser_choices(known)}"
            )
    return parsers


def _choose(
    layer: _Layer, variable: str, setting: PerModel[ValueT], form: str, noun: str, *, unset: ValueT
) -> dict[str, ValueT]:
    """Return the values of a setting by model. A model has one at most."""
    chosen: dict[str, ValueT] = {}
    for root, value in layer.values(variable, setting, form, unset=unset):
        if chosen.setdefault(root, value) != value:
            raise SettingsError(f"{variable} names two {noun} for {root}: {chosen[root]} and {value}")
    return chosen


def _max_model_len(setting: int | None, own: int | None, *, alone: bool) -> int:
    """Return the length that the setting gives to a single model, or its bound on one of several."""
    if setting and own and not alone:
        return min(setting, own)
    return setting or own or DEFAULT_MAX_MODEL_LEN
