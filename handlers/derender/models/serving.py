"""How the models of a layer are served: what the settings and the manifests say together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from derender.settings import AUTO, DEFAULT_MAX_MODEL_LEN, NO_PARSER, SettingsError, parser_choices

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from derender.settings import Pair, Settings
    from derender.vocabulary import Manifest

__all__ = ["ServingPlan", "plan_serving"]


class ServingPlan(NamedTuple):
    """How a model is served: what can be said before its vocabulary is loaded."""

    root: str
    """What its vocabulary calls itself."""
    names: tuple[str, ...]
    """What clients call it; the first is the default."""
    max_model_len: int
    tool_call_parser: str | None
    reasoning_parser: str | None


def plan_serving(settings: Settings, manifests: Mapping[str, Manifest]) -> tuple[list[ServingPlan], str | None]:
    """How each model of a layer is served, the default one first, and the name of that, if there is one.

    Args:
        settings: The settings.
        manifests: What each vocabulary calls itself → what else it says.

    Raises:
        SettingsError: A setting is of a model that there is not, or does not say of which.
    """
    layer = _Layer(manifests, _default(settings, manifests))
    names = _names(layer, settings)
    tool_call_parsers = _parsers(
        "DERENDER_TOOL_CALL_PARSER",
        TOOL_CALL_PARSERS,
        {root: manifest.tool_call_parser for root, manifest in manifests.items()},
        layer.parsers("DERENDER_TOOL_CALL_PARSER", settings.tool_call_parser, settings.tool_call_parsers),
    )
    reasoning_parsers = _parsers(
        "DERENDER_REASONING_PARSER",
        REASONING_PARSERS,
        {root: manifest.reasoning_parser for root, manifest in manifests.items()},
        layer.parsers("DERENDER_REASONING_PARSER", settings.reasoning_parser, settings.reasoning_parsers),
    )
    plans = [
        ServingPlan(
            root,
            names[root],
            _max_model_len(settings.max_model_len, manifests[root].max_model_len, alone=len(manifests) == 1),
            tool_call_parsers[root],
            reasoning_parsers[root],
        )
        for root in sorted(manifests, key=lambda root: (root != layer.default, root))
    ]
    return plans, layer.default


class _Layer(NamedTuple):
    """Of which models settings may be."""

    roots: Collection[str]
    default: str | None

    def check(self, variable: str, root: str) -> None:
        """Refuse a model that there is not."""
        if root not in self.roots:
            raise SettingsError(
                f"{variable}: there is no model {root!r}; the layer holds {_listed(self.roots)}"
            )

    def of_default(self, variable: str, value: str, form: str) -> str:
        """The model that something is said of that names none."""
        if self.default is None:
            raise SettingsError(
                f"{variable}: {value!r} is said of no model; write {form} for each, or set DERENDER_MODEL"
            )
        return self.default

    def parsers(self, variable: str, parser: str, pairs: Collection[Pair]) -> dict[str, str]:
        """Model → the parser that a setting says."""
        said = dict(pairs)
        for root in said:
            self.check(variable, root)
        if parser != AUTO:
            root = self.of_default(variable, parser, f"MODEL={parser}")
            if said.setdefault(root, parser) != parser:
                raise SettingsError(f"{variable} names two parsers for {root}: {said[root]} and {parser}")
        return said


def _default(settings: Settings, roots: Collection[str]) -> str | None:
    if settings.model is None:
        return next(iter(roots)) if len(roots) == 1 else None
    if settings.model not in roots:
        raise SettingsError(f"DERENDER_MODEL is {settings.model!r}; {settings.layer} holds {_listed(roots)}")
    return settings.model


def _names(layer: _Layer, settings: Settings) -> dict[str, tuple[str, ...]]:
    """Model → what clients call it: its own name too, unless it is the only one and has others."""
    variable = "DERENDER_SERVED_MODEL_NAME"
    given = {name: layer.of_default(variable, name, "NAME=MODEL") for name in settings.served_model_name}
    for name, root in settings.served_model_names:
        layer.check(variable, root)
        if given.setdefault(name, root) != root:
            raise SettingsError(f"{variable}: {name!r} is said of two models, {given[name]} and {root}")
    for name, root in given.items():
        if name in layer.roots and name != root:
            raise SettingsError(f"{variable}: {name!r} is said of {root}, and is another model's own name")
    names: dict[str, tuple[str, ...]] = {}
    for root in layer.roots:
        others = [name for name, of in given.items() if of == root]
        own = () if others and len(layer.roots) == 1 else (root,)
        names[root] = tuple(dict.fromkeys((*others, *own)))
    return names


def _parsers(
    variable: str, known: Collection[str], declared: Mapping[str, str | None], said: Mapping[str, str]
) -> dict[str, str | None]:
    """Model → the name of its parser: what the setting says, or else what the manifest declares."""
    parsers: dict[str, str | None] = {}
    for root, of_layer in declared.items():
        choice = said.get(root, AUTO)
        if choice == AUTO and of_layer not in (None, *known):
            raise SettingsError(
                f"{variable} is auto and the layer names {of_layer!r} for {root}, which does not exist here; "
                f"it may be {parser_choices(known)}"
            )
        parsers[root] = of_layer if choice == AUTO else None if choice == NO_PARSER else choice
    return parsers


def _max_model_len(setting: int | None, own: int | None, *, alone: bool) -> int:
    """Of one model the setting is the length, of several a bound."""
    if setting and own and not alone:
        return min(setting, own)
    return setting or own or DEFAULT_MAX_MODEL_LEN


def _listed(roots: Collection[str]) -> str:
    return ", ".join(sorted(roots))
