"""Settings, read from the environment once, at start."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

from .limits import Limits
from .logprobs import LogprobWriter
from .model import ServedModel
from .parsing import REASONING_PARSERS, TOOL_CALL_PARSERS, ParserError, load_parsers
from .streaming import StateSeal
from .vocabulary import VocabularyError, files, load, read_manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .logprobs import LogprobBytes
    from .model import ToolCallDeltas
    from .parsing import Parsers
    from .relay import Relay, Upstream
    from .vocabulary import Manifest, Vocabulary

__all__ = ["Settings", "SettingsError", "default_layer", "load_model"]

_Word = TypeVar("_Word", bound=str)

LAMBDA_LAYER: Final = Path("/opt/tokenizer")
"""Where Lambda mounts the tokenizer layer."""
AUTO: Final = "auto"
"""The parser that the layer's manifest names, if it names one."""
NO_PARSER: Final = "none"
LEAST_KEY: Final = 16
"""Characters of the shortest key that is accepted."""
MOST_SECONDS: Final = 86_400
"""Longest time to wait for something."""
DEFAULT_MAX_MODEL_LEN: Final = 131_072
"""Where neither a setting nor the layer says: the longest context in common use."""


class SettingsError(ValueError):
    """A setting that can't be used; one line that names it."""


@dataclass(frozen=True)
class Settings:
    """What an operator chooses. Each field is the environment variable `DERENDER_` and its name."""

    layer: Path
    """Folder of compiled vocabularies."""
    model: str | None = None
    """Name of the vocabulary to serve, where the layer holds several."""
    served_model_name: tuple[str, ...] = ()
    """What clients call the model; by default the vocabulary's own name."""
    max_model_len: int | None = None
    """Longest sequence accepted; by default the layer's."""
    max_logprobs: int = 20
    """Most candidates for each token, the sampled one not counted; -1 for any number."""
    max_sequences: int = 16_384
    """Most choices in a response, and most responses in a request."""
    max_body_bytes: int = 64 * 1024 * 1024
    """Largest request body, after decompression."""
    logprob_bytes: LogprobBytes = "exact"
    """What `bytes` are in logprobs: `exact` or `peer`."""
    tool_call_parser: str = AUTO
    """Name of the tool-call parser, `none`, or `auto` for what the layer names."""
    reasoning_parser: str = AUTO
    """Name of the reasoning parser, likewise."""
    tool_call_deltas: ToolCallDeltas = "fragments"
    """How a stream gives a tool call: `fragments` of its arguments as they come, or the `complete` call."""
    state_keys: tuple[str, ...] = field(default=(), repr=False)
    """Secrets that states of streams are authenticated with: the first signs, all are accepted."""
    upstreams: tuple[Upstream, ...] = ()
    """Generate servers that the relay asks; the first is the default. None: there is no relay."""
    render_url: Upstream | None = None
    """The service that renders clients' requests for the relay."""
    upstream_timeout: float = 120
    """Seconds without a byte after which an upstream is given up."""
    generation_timeout: float = 900
    """The same of a generation that is not streamed, of which nothing comes until its end."""
    upstream_connect_timeout: float = 5
    """Seconds in which a connection to an upstream must be made."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings. An empty variable is one that is not set.

        Raises:
            SettingsError: Names the variable and what it may be.
        """
        given = {
            name.removeprefix("DERENDER_").lower(): value.strip()
            for name, value in environment.items()
            if name.startswith("DERENDER_") and value.strip()
        }
        names = (name.strip() for name in given.get("served_model_name", "").split(","))
        return cls(
            layer=Path(given["layer"]) if "layer" in given else default_layer(),
            model=given.get("model"),
            served_model_name=tuple(dict.fromkeys(name for name in names if name)),
            max_model_len=_integer(given, "max_model_len", 0, least=1) or None,
            max_logprobs=_integer(given, "max_logprobs", cls.max_logprobs, least=-1),
            max_sequences=_integer(given, "max_sequences", cls.max_sequences, least=1),
            max_body_bytes=_integer(given, "max_body_bytes", cls.max_body_bytes, least=1),
            logprob_bytes=_one_of(given, "logprob_bytes", ("exact", "peer")),
            tool_call_parser=_parser(given, "tool_call_parser", TOOL_CALL_PARSERS),
            reasoning_parser=_parser(given, "reasoning_parser", REASONING_PARSERS),
            tool_call_deltas=_one_of(given, "tool_call_deltas", ("fragments", "complete")),
            state_keys=_keys(given, "state_key"),
            **_upstreams(given, environment),
            upstream_timeout=_seconds(given, "upstream_timeout", cls.upstream_timeout),
            generation_timeout=_seconds(given, "generation_timeout", cls.generation_timeout),
            upstream_connect_timeout=_seconds(given, "upstream_connect_timeout", cls.upstream_connect_timeout),
        )

    @property
    def relay(self) -> Relay | None:
        """Who the relay asks, if there is one."""
        if not self.upstreams:
            return None
        from .relay import Relay

        return Relay(
            self.upstreams,
            self.render_url,
            timeout=self.upstream_timeout,
            generation_timeout=self.generation_timeout,
            connect_timeout=self.upstream_connect_timeout,
        )


def default_layer() -> Path:
    """The tokenizer layer that Lambda mounts, or the vocabulary that comes with the project."""
    if LAMBDA_LAYER.is_dir():
        return LAMBDA_LAYER
    installed = Path(__file__).with_name("default")
    return installed if installed.is_dir() else Path(__file__).parents[2] / "layers" / "tokenizer" / "default"


def load_model(settings: Settings) -> ServedModel:
    """Map the vocabulary that the settings name.

    Raises:
        SettingsError: There is none, or more than one and none is named, or it can't be used.
    """
    try:
        vocabulary = load(_vocabulary_file(settings))
    except VocabularyError as error:
        raise SettingsError(f"DERENDER_LAYER: {error}") from error
    manifest = vocabulary.manifest
    parser_names = _parser_names(settings, manifest)
    return ServedModel(
        names=settings.served_model_name or (manifest.name,),
        vocabulary=vocabulary,
        limits=Limits(
            vocabulary_size=manifest.size,
            max_model_len=settings.max_model_len or manifest.max_model_len or DEFAULT_MAX_MODEL_LEN,
            max_logprobs=settings.max_logprobs,
            max_sequences=settings.max_sequences,
        ),
        logprobs=LogprobWriter(vocabulary, settings.logprob_bytes),
        parsers=_parsers(parser_names, vocabulary),
        seal=StateSeal(
            model=_checksum(manifest, *parser_names.values(), settings.tool_call_deltas),
            size=manifest.size,
            keys=tuple(key.encode() for key in settings.state_keys),
        ),
        tool_call_deltas=settings.tool_call_deltas,
    )


def _checksum(manifest: Manifest, *served: str | None) -> int:
    """Tells models apart, and ways to serve them."""
    return zlib.crc32(
        "\0".join(map(str, (manifest.source_sha256, manifest.rule, manifest.size, *served))).encode()
    )


def _parser_names(settings: Settings, manifest: Manifest) -> dict[str, str | None]:
    """Setting → the name of the parser that it or the layer chooses."""
    named: dict[str, str | None] = {}
    for name, layer, known in (
        ("tool_call_parser", manifest.tool_call_parser, TOOL_CALL_PARSERS),
        ("reasoning_parser", manifest.reasoning_parser, REASONING_PARSERS),
    ):
        chosen: str = getattr(settings, name)
        if chosen == AUTO and layer not in (None, *known):
            raise SettingsError(
                f"DERENDER_{name.upper()} is auto and the layer names {layer!r}, which does not exist here; "
                f"it may be {_choices(known)}"
            )
        named[name] = layer if chosen == AUTO else None if chosen == NO_PARSER else chosen
    return named


def _parsers(named: Mapping[str, str | None], vocabulary: Vocabulary) -> Parsers | None:
    try:
        return load_parsers(vocabulary, named["tool_call_parser"], named["reasoning_parser"])
    except ParserError as error:
        raise SettingsError(f"DERENDER_TOOL_CALL_PARSER, DERENDER_REASONING_PARSER: {error}") from error


def _vocabulary_file(settings: Settings) -> Path:
    found = files(settings.layer)
    if settings.model is None and len(found) == 1:
        return found[0]
    named: dict[str, Path] = {}
    for path in found:
        name = read_manifest(path).name
        if name in named:
            raise SettingsError(f"DERENDER_LAYER: {named[name]} and {path} are both named {name}; remove one")
        named[name] = path
    if settings.model in named:
        return named[settings.model]
    problem = "is not set" if settings.model is None else f"is {settings.model!r}"
    raise SettingsError(f"DERENDER_MODEL {problem}; {settings.layer} holds {', '.join(sorted(named))}")


def _integer(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise SettingsError(f"DERENDER_{name.upper()} is {text!r}; it may be an integer from {least} on")
    return value


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= MOST_SECONDS:
        raise SettingsError(
            f"DERENDER_{name.upper()} is {text[:100]!r}; it may be a number of seconds, more than 0 and up to "
            f"{MOST_SECONDS:,}"
        )
    return value


class _Upstreams(TypedDict):
    upstreams: tuple[Upstream, ...]
    render_url: Upstream | None


def _upstreams(given: Mapping[str, str], environment: Mapping[str, str]) -> _Upstreams:
    if "upstreams" not in given:
        if "render_url" in given:
            raise SettingsError("DERENDER_RENDER_URL needs DERENDER_UPSTREAMS, which is not set")
        return {"upstreams": (), "render_url": None}
    # Only who relays pays for the import.
    from .relay.upstreams import read_upstream, read_upstreams

    name = "upstreams"
    try:
        upstreams = read_upstreams(given[name], environment)
        name = "render_url"
        render = read_upstream("render", given[name], environment) if name in given else None
    except ValueError as error:
        raise SettingsError(f"DERENDER_{name.upper()}: {error}") from None
    return {"upstreams": upstreams, "render_url": render}


def _one_of(given: Mapping[str, str], name: str, words: tuple[_Word, ...]) -> _Word:
    """The word given; the first of them where none is."""
    text = given.get(name, words[0])
    for word in words:
        if word == text:
            return word
    raise SettingsError(f"DERENDER_{name.upper()} is {text!r}; it may be {' or '.join(words)}")


def _keys(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in given.get(name, "").split(",") if key.strip())
    if any(len(key) < LEAST_KEY for key in keys):
        raise SettingsError(
            f"DERENDER_{name.upper()}: a key is shorter than {LEAST_KEY} characters; make one with: "
            "openssl rand -hex 32"
        )
    return keys


def _parser(given: Mapping[str, str], name: str, known: Collection[str]) -> str:
    value = given.get(name, AUTO)
    if value not in (NO_PARSER, AUTO, *known):
        raise SettingsError(f"DERENDER_{name.upper()} is {value!r}; it may be {_choices(known)}")
    return value


def _choices(known: Collection[str]) -> str:
    return f"{NO_PARSER}, {AUTO}, {', '.join(sorted(known))}"
