"""Settings, read from the environment once, at start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from .parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from .vocabulary import MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .logprobs.writer import LogprobBytes

__all__ = [
    "AUTO",
    "DEFAULT_MAX_MODEL_LEN",
    "NO_PARSER",
    "Pair",
    "Settings",
    "SettingsError",
    "ToolCallDeltas",
    "default_layer",
    "parser_choices",
]

_Word = TypeVar("_Word", bound=str)
Pair = tuple[str, str]
"""What is left and right of an equals sign."""
ToolCallDeltas = Literal["fragments", "complete"]
"""Fragments of a call's arguments as they come, or each call once it is complete."""

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
    """What an operator chooses. Each field is the environment variable `DERENDER_` and its name.

    Names and parsers are the default model's, unless they are said of a model: `NAME=MODEL` and `MODEL=PARSER`,
    separated by commas. Those are fields of their own.
    """

    layer: Path
    """Folder of compiled vocabularies."""
    model: str | None = None
    """Name of the default vocabulary: of requests that name no model. A layer's only one is its default."""
    served_model_name: tuple[str, ...] = ()
    """What clients call the default model; by default the vocabulary's own name."""
    served_model_names: tuple[Pair, ...] = ()
    """Names that are said of a model: the name, the vocabulary's own name."""
    max_model_len: int | None = None
    """Longest sequence accepted; by default the layer's. Where that holds several models, a bound of theirs."""
    max_logprobs: int = 20
    """Most candidates for each token, the sampled one not counted; -1 for any number."""
    max_sequences: int = 16_384
    """Most choices in a response, and most responses in a request."""
    max_body_bytes: int = 64 * 1024 * 1024
    """Largest request body, after decompression."""
    logprob_bytes: LogprobBytes = "exact"
    """What `bytes` are in logprobs: `exact` or `peer`."""
    tool_call_parser: str = AUTO
    """Name of the default model's tool-call parser, `none`, or `auto` for what the layer names."""
    tool_call_parsers: tuple[Pair, ...] = ()
    """Parsers that are said of a model: the vocabulary's own name, the parser."""
    reasoning_parser: str = AUTO
    """Name of the reasoning parser, likewise."""
    reasoning_parsers: tuple[Pair, ...] = ()
    """Likewise."""
    tool_call_deltas: ToolCallDeltas = "fragments"
    """How a stream gives a tool call: `fragments` of its arguments as they come, or the `complete` call."""
    state_keys: tuple[str, ...] = field(default=(), repr=False)
    """Secrets that states of streams are authenticated with: the first signs, all are accepted."""
    upstreams: str | None = field(default=None, repr=False)
    """JSON of the generate servers that the relay asks. May hold secrets. None: there is no relay."""
    render_url: str | None = field(default=None, repr=False)
    """The service that renders clients' requests for the relay: a URL, or JSON that may hold secrets."""
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
        names, named = _names(given)
        tool_call_parser, tool_call_parsers = _parsers(given, "tool_call_parser", TOOL_CALL_PARSERS)
        reasoning_parser, reasoning_parsers = _parsers(given, "reasoning_parser", REASONING_PARSERS)
        return cls(
            layer=Path(given["layer"]) if "layer" in given else default_layer(),
            model=given.get("model"),
            served_model_name=names,
            served_model_names=named,
            max_model_len=_integer(given, "max_model_len", 0, least=1, most=MAX_LENGTH) or None,
            max_logprobs=_integer(given, "max_logprobs", cls.max_logprobs, least=-1),
            max_sequences=_integer(given, "max_sequences", cls.max_sequences, least=1),
            max_body_bytes=_integer(given, "max_body_bytes", cls.max_body_bytes, least=1),
            logprob_bytes=_one_of(given, "logprob_bytes", ("exact", "peer")),
            tool_call_parser=tool_call_parser,
            tool_call_parsers=tool_call_parsers,
            reasoning_parser=reasoning_parser,
            reasoning_parsers=reasoning_parsers,
            tool_call_deltas=_one_of(given, "tool_call_deltas", ("fragments", "complete")),
            state_keys=_keys(given, "state_key"),
            upstreams=given.get("upstreams"),
            render_url=given.get("render_url"),
            upstream_timeout=_seconds(given, "upstream_timeout", cls.upstream_timeout),
            generation_timeout=_seconds(given, "generation_timeout", cls.generation_timeout),
            upstream_connect_timeout=_seconds(given, "upstream_connect_timeout", cls.upstream_connect_timeout),
        )


def default_layer() -> Path:
    """The tokenizer layer that Lambda mounts, or the vocabulary that comes with the project."""
    if LAMBDA_LAYER.is_dir():
        return LAMBDA_LAYER
    installed = Path(__file__).with_name("default")
    return installed if installed.is_dir() else Path(__file__).parents[2] / "layers" / "tokenizer" / "default"


def _integer(given: Mapping[str, str], name: str, default: int, *, least: int, most: int | None = None) -> int:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least or (most is not None and value > most):
        bound = "on" if most is None else f"to {most}"
        raise SettingsError(
            f"DERENDER_{name.upper()} is {text[:100]!r}; it may be an integer from {least} {bound}"
        )
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


def _items(given: Mapping[str, str], name: str) -> list[str]:
    """What is there between commas."""
    return [item.strip() for item in given.get(name, "").split(",") if item.strip()]


def _names(given: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[Pair, ...]]:
    """Names, and names of models."""
    names: dict[str, None] = {}
    pairs: dict[Pair, None] = {}
    for item in _items(given, "served_model_name"):
        name, equals, model = (part.strip() for part in item.partition("="))
        if not equals:
            names[name] = None
        elif name and model:
            pairs[name, model] = None
        else:
            raise SettingsError(f"DERENDER_SERVED_MODEL_NAME: {item!r} is no name, and no NAME=MODEL")
    return tuple(names), tuple(pairs)


def _parsers(given: Mapping[str, str], name: str, known: Collection[str]) -> tuple[str, tuple[Pair, ...]]:
    """A parser, and parsers of models."""
    variable = f"DERENDER_{name.upper()}"
    parsers: list[str] = []
    pairs: dict[str, str] = {}
    for item in _items(given, name):
        model, equals, parser = (part.strip() for part in item.rpartition("="))
        if parser not in (NO_PARSER, AUTO, *known) or (equals and not model):
            raise SettingsError(
                f"{variable} is {item!r}; it may be {parser_choices(known)}, or MODEL=PARSER for each model"
            )
        if not equals:
            parsers.append(parser)
        elif pairs.setdefault(model, parser) != parser:
            raise SettingsError(f"{variable} names two parsers for {model}: {pairs[model]} and {parser}")
    if len(parsers) > 1:
        raise SettingsError(f"{variable} names several parsers; write MODEL=PARSER for each model")
    return parsers[0] if parsers else AUTO, tuple(pairs.items())


def parser_choices(known: Collection[str]) -> str:
    """What a parser setting may be, for people."""
    return f"{NO_PARSER}, {AUTO}, {', '.join(sorted(known))}"
