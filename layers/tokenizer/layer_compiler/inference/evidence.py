"""Read the evidence for a model's parsers from its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from layer_compiler.errors import LayerError
from layer_compiler.formats import sentence_piece, tekken
from layer_compiler.model_files.filenames import TEMPLATE_FOLDER, list_files
from layer_compiler.model_files.reading import read_file, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

__all__ = ["Evidence", "read_evidence"]

_MAX_TEMPLATE_BYTES: Final = 1 << 20
"""Maximum size of a chat template. The largest known has 30 kB."""
_MAX_TEMPLATES: Final = 16
_TEMPLATES_WITH_TOOLS: Final = ("tool_use", "default")
"""Names of chat templates, the one that renders requests with tools first."""
_TOOL_CALLS: Final = "[TOOL_CALLS]"
"""The token that begins calls in Mistral's formats."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence in a model's files.

    Attributes:
        added_tokens: The tokenizer's added tokens.
        template: The chat template that renders requests with tools.
        architectures: The model's architectures and types, as config.json names them.
        response_template: Whether the tokenizer has a usable response template.
        tekken_version: The version of Mistral's own tokenizer.
        sentence_piece_version: The version in the name of Mistral's SentencePiece model, if the model has the
            token that begins calls.
        unreadable: Files and fields that can't be read, and why, a line each.
    """

    added_tokens: frozenset[str] = frozenset()
    template: str | None = None
    architectures: tuple[str, ...] = ()
    response_template: bool = False
    tekken_version: str | None = None
    sentence_piece_version: str | None = None
    unreadable: tuple[str, ...] = ()


def read_evidence(
    folder: Path, added_tokens: Collection[str] = (), response_template: Mapping[str, Any] | None = None
) -> Evidence:
    """Read a model's files. Missing files are left out, and so are malformed ones, with a line in `unreadable`.

    Args:
        folder: The model's files.
        added_tokens: The tokenizer's added tokens.
        response_template: The tokenizer's response template.
    """
    files = _Files(folder)
    template = _find_template(files)
    architectures = tuple(dict.fromkeys(_find_architectures(files.read_json("config.json"))))
    model = sentence_piece.find(folder, files.names)
    version = sentence_piece.find_version(model.name) if model and _TOOL_CALLS in added_tokens else None
    tekken_path = tekken.find(folder, files.names)
    return Evidence(
        added_tokens=frozenset(added_tokens),
        template=template,
        architectures=architectures,
        response_template=_has_fields(response_template, files.unreadable),
        tekken_version=_find_version(files.read_json(tekken_path.name)) if tekken_path else None,
        sentence_piece_version=None if version is None else f"v{version}",
        unreadable=tuple(files.unreadable),
    )


class _Files:
    """The files of a folder. Collects what can't be read instead of failing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names = list_files(folder)
        self.unreadable: list[str] = []

    def read_json(self, name: str) -> dict[str, Any]:
        """Return a file's JSON object, empty if there is none."""
        return (self._read(name, read_json) if name in self.names else None) or {}

    def read_template(self, name: str) -> str | None:
        """Return a template's text, or None if there is none."""
        return self._read(name, _read_text) if name in self.names else None

    def _read(self, name: str, read: Callable[[Path], T]) -> T | None:
        try:
            return read(self._folder / name)
        except LayerError as error:
            self.unreadable.append(str(error).removeprefix(f"{self._folder}/"))
        except UnicodeDecodeError as error:
            self.unreadable.append(f"{name}: can't be read: {error}")
        return None


def _read_text(path: Path) -> str:
    return read_file(path, _MAX_TEMPLATE_BYTES).decode()


def _find_template(files: _Files) -> str | None:
    """Return the chat template that renders requests with tools.

    As in transformers, template files come before the tokenizer's configuration, and a processor's last.
    """
    templates: dict[str, str] = {}
    for name in ("chat_template.json", "tokenizer_config.json"):
        templates |= _read_named_templates(files.read_json(name).get("chat_template"), files.unreadable)
    if (text := files.read_template("chat_template.jinja")) is not None:
        # It replaces all templates of the configuration, whatever their names.
        templates = {"default": text}
    additional = [name for name in files.names if name.startswith(f"{TEMPLATE_FOLDER}/")]
    for name in additional[:_MAX_TEMPLATES]:
        if (text := files.read_template(name)) is not None:
            templates[name.removeprefix(f"{TEMPLATE_FOLDER}/").removesuffix(".jinja")] = text
    return next((templates[name] for name in _TEMPLATES_WITH_TOOLS if name in templates), None)


def _read_named_templates(value: object, unreadable: list[str]) -> dict[str, str]:
    """Return the templates of `chat_template` by name. The field holds one template or a list of them."""
    if value is None:
        return {}
    listed = value if isinstance(value, list) else [{"name": "default", "template": value}]
    named = {}
    for item in listed[:_MAX_TEMPLATES]:
        match item:
            case {"name": str(name), "template": str(template)} if len(template) <= _MAX_TEMPLATE_BYTES:
                named[name] = template
            case _:
                unreadable.append("chat_template: can't be read: not a name and a template of at most 1 MB")
    return named


def _find_architectures(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the architectures and types of a model, then those of its language model."""
    for part in (config, config.get("text_config")):
        if isinstance(part, dict):
            architectures = part.get("architectures")
            for name in (*(architectures if isinstance(architectures, list) else ()), part.get("model_type")):
                if isinstance(name, str):
                    yield name


def _has_fields(response_template: Mapping[str, Any] | None, unreadable: list[str]) -> bool:
    if response_template is None:
        return False
    fields = response_template.get("fields")
    if isinstance(fields, dict) and fields:
        return True
    unreadable.append("response_template: not an object with fields")
    return False


def _find_version(tekken_file: Mapping[str, Any]) -> str | None:
    config = tekken_file.get("config")
    version = config.get("version") if isinstance(config, dict) else None
    return version if isinstance(version, str) else None
