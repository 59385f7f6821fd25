"""What a model's files hold that tells its parsers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from layer_compiler.errors import BuildError
from layer_compiler.formats import sentence_piece, tekken
from layer_compiler.model_files.filenames import TEMPLATES, files_read, wanted
from layer_compiler.model_files.reading import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from layer_compiler.formats import Format

__all__ = ["Evidence", "read_evidence"]

_MOST_OF_TOKENIZER: Final = 256 << 20
_MOST_OF_CONFIG: Final = 64 << 20
_MOST_OF_TEMPLATE: Final = 1 << 20
"""Bytes of a file that is read; the largest known are of 35 MB, 1 MB and 30 kB."""
_WITH_TOOLS: Final = ("tool_use", "default")
"""Names of chat templates, the one first that renders a request with tools."""
_MOST_TEMPLATES: Final = 16
_CHARACTERS_OF_FAULT: Final = 120
_CALLS: Final = "[TOOL_CALLS]"
"""What begins calls in Mistral's formats."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a model's files hold.

    Attributes:
        tokens: Its added tokens.
        template: The chat template that renders requests with tools.
        models: Its architectures and model types, as the files name them.
        response_template: Whether the tokenizer carries a response template.
        tekken: The version of Mistral's own tokenizer, where there is one.
        sentence_piece: The version that the name of Mistral's SentencePiece model says, where the model has the
            token that begins calls.
        faults: What could not be read, and why; a line each.
    """

    tokens: frozenset[str] = frozenset()
    template: str | None = None
    models: tuple[str, ...] = ()
    response_template: bool = False
    tekken: str | None = None
    sentence_piece: str | None = None
    faults: tuple[str, ...] = ()


def read_evidence(folder: Path) -> Evidence:
    """Read a model's files. What is missing is left out; what is malformed too, with a line in `faults`."""
    faults: list[str] = []
    tokenizer = _object(folder / "tokenizer.json", _MOST_OF_TOKENIZER, faults)
    config = _object(folder / "tokenizer_config.json", _MOST_OF_CONFIG, faults)
    mistral = _found(tekken, folder, faults)
    tekken_file = {} if mistral is None else _object(mistral, _MOST_OF_TOKENIZER, faults)
    model = _found(sentence_piece, folder, faults)
    markers = frozenset() if model is None else _markers(model, faults)
    version = sentence_piece.version_of(model.name) if model is not None and _CALLS in markers else None
    return Evidence(
        tokens=frozenset(
            (
                *_contents(tokenizer.get("added_tokens"), "content"),
                *_contents(config.get("added_tokens_decoder"), "content"),
                *_contents(tekken_file.get("special_tokens"), "token_str"),
                *markers,
            )
        ),
        template=_template(folder, config, faults),
        models=tuple(dict.fromkeys(_models(_object(folder / "config.json", _MOST_OF_CONFIG, faults)))),
        response_template=_responds(config.get("response_template"), faults),
        tekken=_version(tekken_file),
        sentence_piece=None if version is None else f"v{version}",
        faults=tuple(faults),
    )


def _found(format_: Format, folder: Path, faults: list[str]) -> Path | None:
    """The file that is read of a format; None where there is none, or several."""
    try:
        return format_.find(folder, [name for name in names(folder) if wanted(name)])
    except BuildError as error:
        faults.append(f"not read: {_reason(error)}")
        return None


def _markers(model: Path, faults: list[str]) -> frozenset[str]:
    """The tokens of a SentencePiece model that are no ordinary text."""
    content = _content(model, _MOST_OF_TOKENIZER, faults)
    try:
        return frozenset(() if content is None else sentence_piece.marker_tokens(content))
    except ValueError as error:
        faults.append(f"{model.name}: not read: {_reason(error)}")
        return frozenset()


def _text(path: Path, most: int, faults: list[str]) -> str | None:
    """A file's text; None where there is no such file, or none that can be read."""
    content = _content(path, most, faults)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        faults.append(f"{path.name}: not read: {_reason(error)}")
        return None


def _content(path: Path, most: int, faults: list[str]) -> bytes | None:
    """What is in a file, likewise."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            faults.append(f"{path.name}: not read: more than {most >> 20} MB")
            return None
    except OSError as error:
        faults.append(f"{path.name}: not read: {_reason(error)}")
        return None
    return content


def _object(path: Path, most: int, faults: list[str]) -> dict[str, Any]:
    """A file's JSON object; an empty one where there is none."""
    text = _text(path, most, faults)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        faults.append(f"{path.name}: not read: {_reason(error)}")
        return {}
    if not isinstance(value, dict):
        faults.append(f"{path.name}: not read: no JSON object")
        return {}
    return value


def _reason(error: Exception) -> str:
    return str(error).replace("\n", " ")[:_CHARACTERS_OF_FAULT]


def _contents(tokens: object, name: str) -> Iterator[str]:
    """The texts of tokens, listed or by their ids."""
    for token in tokens.values() if isinstance(tokens, dict) else tokens if isinstance(tokens, list) else ():
        content = token.get(name) if isinstance(token, dict) else None
        if isinstance(content, str):
            yield content


def _template(folder: Path, config: Mapping[str, Any], faults: list[str]) -> str | None:
    """The chat template that renders requests with tools. Files come before the tokenizer's configuration, as
    in transformers, and a processor's last."""
    templates = _named(_object(folder / "chat_template.json", _MOST_OF_TEMPLATE, faults), faults)
    templates |= _named(config, faults)
    text = _text(folder / "chat_template.jinja", _MOST_OF_TEMPLATE, faults)
    if text is not None:
        # What the configuration holds is then no longer used, by whatever name.
        templates = {"default": text}
    for path in _more_templates(folder, faults)[:_MOST_TEMPLATES]:
        text = _text(path, _MOST_OF_TEMPLATE, faults)
        if text is not None:
            templates[path.stem] = text
    return next((templates[name] for name in _WITH_TOOLS if name in templates), None)


def _more_templates(folder: Path, faults: list[str]) -> list[Path]:
    try:
        return [folder / name for name in files_read(folder) if name.startswith(f"{TEMPLATES}/")]
    except OSError as error:
        faults.append(f"{TEMPLATES}: not read: {_reason(error)}")
        return []


def _named(config: Mapping[str, Any], faults: list[str]) -> dict[str, str]:
    """Name → chat template of a configuration, which holds one or a list of them."""
    value = config.get("chat_template")
    if value is None:
        return {}
    listed = [{"name": "default", "template": value}] if isinstance(value, str) else value
    if not isinstance(listed, list):
        faults.append("chat_template: not read: neither a text nor a list")
        return {}
    named = {}
    for item in listed[:_MOST_TEMPLATES]:
        match item:
            case {"name": str(name), "template": str(template)} if len(template) <= _MOST_OF_TEMPLATE:
                named[name] = template
            case _:
                faults.append("chat_template: not read: no name and template, or too long")
    return named


def _models(config: Mapping[str, Any]) -> Iterator[str]:
    """Architectures and types, of the model and of the language model within."""
    for part in (config, config.get("text_config")):
        if isinstance(part, dict):
            architectures = part.get("architectures")
            for name in (*(architectures if isinstance(architectures, list) else ()), part.get("model_type")):
                if isinstance(name, str):
                    yield name


def _version(tekken: Mapping[str, Any]) -> str | None:
    config = tekken.get("config")
    version = config.get("version") if isinstance(config, dict) else None
    return version if isinstance(version, str) else None


def _responds(template: object, faults: list[str]) -> bool:
    if template is None:
        return False
    fields = template.get("fields") if isinstance(template, dict) else None
    usable = isinstance(fields, dict) and bool(fields)
    if not usable:
        faults.append("response_template: not read: no object with fields")
    return usable
