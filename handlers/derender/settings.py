"""Settings: environment variables, read once at start."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from .parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from .vocabulary import MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from .logprobs.writer import LogprobBytes

__all__ = [
    "AUTO",
    "DEFAULT_MAX_MODEL_LEN",
    "FUNCTION_VARIABLES",
    "NO_PARSER",
    "PerModel",
    "Settings",
    "SettingsError",
    "ToolCallDeltas",
    "default_layer",
    "parser_choices",
    "read_setting",
    "variable_name",
]

ValueT = TypeVar("ValueT")
WordT = TypeVar("WordT", bound=str)

ToolCallDeltas = Literal["fragments", "complete"]
"""Stream each tool call as fragments of its arguments, or once it is complete."""

AUTO: Final = "auto"
"""The parser that the layer's manifest names, if it names one."""
NO_PARSER: Final = "none"
DEFAULT_MAX_MODEL_LEN: Final = 131_072
"""Used if neither a setting nor the layer has a length: the longest context in common use."""
FUNCTION_VARIABLES: Final = ("DERENDER_SERVICE", "DERENDER_LOG_LEVEL")
"""Variables that only the Lambda functions read, for their log lines and metrics."""

_PREFIX: Final = "DERENDER_"
_LAMBDA_LAYER: Final = Path("/opt/tokenizer")
"""The path where Lambda mounts the tokenizer layer."""
_MIN_KEY_LENGTH: Final = 16
"""Minimum length of a state key, in characters."""
_MAX_SECONDS: Final = 86_400
"""Maximum of a timeout."""
_BEFORE_OBJECT: Final = re.compile(r"\s*(?:([^{,]+?)\s*=\s*)?(?={)")
"""What comes before a JSON object: nothing, or a model's name and an equals sign."""
_AFTER_OBJECT: Final = re.compile(r"\s*(?:,|\Z)")
_ORIGIN: Final = r"\*|null|[a-z][a-z0-9+.-]*://[^\s/*]+"
"""An origin as browsers send it (RFC 6454, "Serializing Origins"), or `*` for all."""


class SettingsError(ValueError):
    """A setting can't be used. The message is one line that names it."""


@dataclass(frozen=True)
class PerModel(Generic[ValueT]):
    """A setting that each model may have its own value of.

    Attributes:
        default: The value of the default model.
        by_model: Values of other models, by the name of their vocabulary.
    """

    # The value may be a mapping.
    default: ValueT = field(hash=False)
    by_model: Mapping[str, ValueT] = field(default_factory=dict, hash=False)


def default_layer() -> Path:
    """Return the tokenizer layer that Lambda mounts, or else the one that comes with the project."""
    if _LAMBDA_LAYER.is_dir():
        return _LAMBDA_LAYER
    installed = Path(__file__).with_name("default")
    return installed if installed.is_dir() else Path(__file__).parents[2] / "layers" / "tokenizer" / "default"


def parser_choices(known: Collection[str]) -> str:
    """List the values that a parser setting may have."""
    return f"{NO_PARSER}, {AUTO}, {', '.join(sorted(known))}"


# --- readers: the text of a variable → its value, or a ValueError that goes on after the variable's name ------


def _integer_reader(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum or (maximum is not None and value > maximum):
            bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
            raise ValueError(f"must be an integer {bounds}, got {text[:100]!r}")
        return value

    return read


def _read_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= _MAX_SECONDS:
        raise ValueError(
            f"must be a number of seconds, more than 0 and at most {_MAX_SECONDS}, got {text[:100]!r}"
        )
    return value


def _one_of_reader(*words: WordT) -> Callable[[str], WordT]:
    def read(text: str) -> WordT:
        for word in words:
            if word == text:
                return word
        raise ValueError(f"must be {' or '.join(words)}, got {text[:100]!r}")

    return read


def _read_origins(text: str) -> tuple[str, ...]:
    origins = tuple(_items(text))
    for origin in origins:
        if not re.fullmatch(_ORIGIN, origin):
            raise ValueError(
                "must be origins such as https://app.example, without a path, or * for all, "
                f"got {origin[:100]!r}"
            )
    return origins


def _read_keys(text: str) -> tuple[str, ...]:
    keys = tuple(_items(text))
    if any(len(key) < _MIN_KEY_LENGTH for key in keys):
        raise ValueError(
            f"has a key shorter than {_MIN_KEY_LENGTH} characters; make one with: openssl rand -hex 32"
        )
    return keys


def _read_names(text: str) -> PerModel[tuple[str, ...]]:
    names: dict[str, dict[str, None]] = {}
    for item in _items(text):
        name, equals, model = (part.strip() for part in item.partition("="))
        if not name or (equals and not model):
            raise ValueError(
                f"must be names, or NAME=MODEL for each model, separated by commas, got {item[:100]!r}"
            )
        names.setdefault(model, {})[name] = None
    default = tuple(names.pop("", ()))
    return PerModel(default, {model: tuple(each) for model, each in names.items()})


def _parser_reader(known: Collection[str]) -> Callable[[str], PerModel[str]]:
    def read(text: str) -> PerModel[str]:
        parsers: dict[str, str] = {}
        for item in _items(text):
            model, equals, parser = (part.strip() for part in item.rpartition("="))
            if parser not in (NO_PARSER, AUTO, *known) or (equals and not model):
                raise ValueError(
                    f"must be {parser_choices(known)}, or MODEL=PARSER for each model, got {item[:100]!r}"
                )
            if parsers.setdefault(model, parser) != parser:
                raise ValueError(
                    f"names two parsers for {model or 'the default model'}: {parsers[model]} and {parser}"
                )
        return PerModel(parsers.pop("", AUTO), parsers)

    return read


def _read_arguments(text: str) -> PerModel[Mapping[str, Any]]:
    arguments: dict[str, dict[str, Any]] = {}
    place = 0
    while place < len(text):
        model, value, place = _read_object(text, place)
        if arguments.setdefault(model, value) != value:
            raise ValueError(f"has two objects for {model or 'the default model'}")
    return PerModel(arguments.pop("", {}), arguments)


def _read_object(text: str, place: int) -> tuple[str, dict[str, Any], int]:
    """Read a JSON object of a list. Returns the model that it is for, the object, and where the next one is."""
    if before := _BEFORE_OBJECT.match(text, place):
        with suppress(ValueError, RecursionError):
            value, end = json.JSONDecoder().raw_decode(text, before.end())
            if after := _AFTER_OBJECT.match(text, end):
                return before[1] or "", value, after.end()
    raise ValueError(
        f"must be a JSON object, or MODEL=OBJECT for each model, separated by commas, got {text[:100]!r}"
    )


def _items(text: str) -> Iterable[str]:
    """Split a list at its commas."""
    return filter(None, map(str.strip, text.split(",")))


# --- settings -------------------------------------------------------------------------------------------------


def _setting(read: Callable[[str], object], *, affects_answers: bool) -> Mapping[str, object]:
    """Describe a setting.

    Args:
        read: Reads its value from the text of the variable.
        affects_answers: Whether another value makes derender answer the same request differently.
    """
    return {"read": read, "affects_answers": affects_answers}


@dataclass(frozen=True)
class Settings:
    """The settings. Each field is read from the variable `DERENDER_` plus its name in capitals."""

    layer: Path = field(
        # What affects answers is in the vocabularies, which batch jobs compare.
        default_factory=default_layer,
        metadata=_setting(Path, affects_answers=False),
    )
    """Folder of compiled vocabularies."""
    model: str | None = field(default=None, metadata=_setting(str, affects_answers=True))
    """The default model, by the name of its vocabulary. If a layer has only one model, that is the default."""
    served_model_name: PerModel[tuple[str, ...]] = field(
        default=PerModel(()), metadata=_setting(_read_names, affects_answers=True)
    )
    """Names that clients use for a model."""
    max_model_len: int | None = field(
        default=None, metadata=_setting(_integer_reader(1, MAX_LENGTH), affects_answers=True)
    )
    """Longest sequence accepted, in tokens. If the layer has several models, a bound on their own lengths."""
    max_logprobs: int = field(default=20, metadata=_setting(_integer_reader(-1), affects_answers=True))
    """Maximum logprob candidates per token, not counting the sampled one; -1 for any number."""
    max_sequences: int = field(default=16_384, metadata=_setting(_integer_reader(1), affects_answers=True))
    """Maximum choices per response, and maximum responses per request."""
    max_body_bytes: int = field(
        default=64 * 1024 * 1024, metadata=_setting(_integer_reader(1), affects_answers=True)
    )
    """Largest request body after decompression."""
    max_answer_bytes: int = field(
        default=64 * 1024 * 1024, metadata=_setting(_integer_reader(1), affects_answers=True)
    )
    """Largest answer before compression, computed before it is made."""
    logprob_bytes: LogprobBytes = field(
        default="exact", metadata=_setting(_one_of_reader("exact", "peer"), affects_answers=True)
    )
    """`bytes` in logprobs: the token's own bytes (`exact`), or what vLLM returns (`peer`)."""
    tool_call_parser: PerModel[str] = field(
        default=PerModel(AUTO), metadata=_setting(_parser_reader(TOOL_CALL_PARSERS), affects_answers=True)
    )
    """The tool-call parser: a name, `none`, or `auto` for the one that the layer names."""
    reasoning_parser: PerModel[str] = field(
        default=PerModel(AUTO), metadata=_setting(_parser_reader(REASONING_PARSERS), affects_answers=True)
    )
    """The reasoning parser: a name, `none`, or `auto` for the one that the layer names."""
    default_chat_template_kwargs: PerModel[Mapping[str, Any]] = field(
        default=PerModel({}), metadata=_setting(_read_arguments, affects_answers=True)
    )
    """Arguments of the chat template that requests may override, as the server that renders has them."""
    tool_call_deltas: ToolCallDeltas = field(
        default="fragments", metadata=_setting(_one_of_reader("fragments", "complete"), affects_answers=True)
    )
    """How a stream delivers a tool call: as `fragments` of its arguments, or once it is `complete`."""
    state_key: tuple[str, ...] = field(
        default=(), repr=False, metadata=_setting(_read_keys, affects_answers=False)
    )
    """Keys that authenticate stream states: the first signs, all are accepted."""
    allowed_origins: tuple[str, ...] = field(
        default=(), metadata=_setting(_read_origins, affects_answers=False)
    )
    """Origins of the web pages that may call from a browser (CORS); `*` for all."""
    upstreams: str | None = field(default=None, repr=False, metadata=_setting(str, affects_answers=False))
    """Generate servers that the relay asks, as JSON that may hold secrets. Without them there is no relay."""
    render_url: str | None = field(default=None, repr=False, metadata=_setting(str, affects_answers=False))
    """Render service that the relay asks: a URL, or JSON that may hold secrets."""
    upstream_timeout: float = field(default=120, metadata=_setting(_read_seconds, affects_answers=False))
    """Seconds that the relay waits for the next byte of an upstream."""
    generation_timeout: float = field(default=900, metadata=_setting(_read_seconds, affects_answers=False))
    """Seconds that the relay waits for a generation that is not streamed: all of it comes at its end."""
    upstream_connect_timeout: float = field(default=5, metadata=_setting(_read_seconds, affects_answers=False))
    """Seconds that the relay waits for a connection to an upstream."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings from environment variables. An empty variable counts as not set.

        Raises:
            SettingsError: A variable has a value that can't be used, or no such variable exists.
        """
        given = {
            name: text
            for name, value in environment.items()
            if name.startswith(_PREFIX) and (text := value.strip())
        }
        values: dict[str, Any] = {}
        for each in fields(cls):
            variable = variable_name(each.name)
            try:
                if variable in given:
                    values[each.name] = each.metadata["read"](given.pop(variable))
            except ValueError as error:
                raise SettingsError(f"{variable} {error}") from None
        if unknown := sorted(given.keys() - FUNCTION_VARIABLES):
            raise SettingsError(_unknown(unknown[0]))
        return cls(**values)

    def affecting_answers(self) -> dict[str, object]:
        """Return the settings that affect answers, by name."""
        return {
            each.name: getattr(self, each.name) for each in fields(self) if each.metadata["affects_answers"]
        }


def read_setting(name: str, text: str) -> Any:
    """Return the value that a text gives to a field of `Settings`.

    Raises:
        ValueError: The text can't be used. The message says what it must be.
    """
    (found,) = (each for each in fields(Settings) if each.name == name)
    return found.metadata["read"](text)


def variable_name(name: str) -> str:
    """Return the name of the variable that a field of `Settings` is read from."""
    return f"{_PREFIX}{name.upper()}"


def _unknown(variable: str) -> str:
    # Imported here: only a mistake pays for it.
    from difflib import get_close_matches

    known = [*(variable_name(each.name) for each in fields(Settings)), *FUNCTION_VARIABLES]
    (nearest,) = get_close_matches(variable, known, n=1, cutoff=0)
    return f"{variable[:100]!r} is not a setting; did you mean {nearest}?"
