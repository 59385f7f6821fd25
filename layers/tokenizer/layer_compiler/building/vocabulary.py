"""Compile one tokenizer into one file."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from derender.vocabulary import (
    Manifest,
    TokenizersError,
    catch_panics,
    compute_fingerprint,
    dump,
    load,
)
from layer_compiler.errors import BuildError
from layer_compiler.formats import read_folder

from .names import LONGEST_NAME, NAME, check_replaced, file_name
from .proof import Proof, prove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layer_compiler.formats.parsed import Source

__all__ = ["Built", "build"]


class Built(NamedTuple):
    """A compiled vocabulary."""

    path: Path
    """The file."""
    proof: Proof | None
    """What was proven; None where the `tokenizers` library itself decodes."""
    unknown: tuple[str, ...]
    """What the folder does not say, and what follows; and which of its tokenizers were not read."""


def build(
    folder: Path,
    name: str,
    out: Path,
    *,
    licence: str | None = None,
    origin: str | None = None,
    revision: str | None = None,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
) -> Built:
    """Compile the tokenizer in a folder and write it, once it is proven.

    Args:
        folder: Holds a tokenizer of one of the formats (`layer_compiler.formats`), and configuration files
            where there are any.
        name: The model's name, as clients send it.
        out: Folder to write to, made if need be; another vocabulary of the same name is replaced.
        licence: The tokenizer's licence, for people.
        origin: Where it came from, for people; by default the folder's name.
        revision: Which version of it, for people.
        tool_call_parser: The model's parser of tool calls, under the name of vLLM's flag; not checked here.
        reasoning_parser: Its parser of reasoning, likewise.

    Raises:
        BuildError: It can't be compiled; nothing was written.
    """
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise BuildError(
            f"name {name[:LONGEST_NAME]!r}: letters, digits and ._:@+- in parts divided by /, "
            f"{LONGEST_NAME} characters at most"
        )
    path = out / file_name(name)
    if path.is_file():
        check_replaced(path, name)
    with _refusing(folder):
        source = read_folder(folder)
        about = _manifest(
            source,
            name,
            origin=origin or folder.resolve().name,
            revision=revision,
            licence=licence,
            tool_call_parser=tool_call_parser,
            reasoning_parser=reasoning_parser,
        )
        content = dump(about, source.pieces, source.tokens.tokenizer_json)
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Not of the name of a vocabulary: until it is proven, nothing takes it for one.
        with tempfile.NamedTemporaryFile(dir=out, suffix=".unproven", delete=False) as file:
            unproven = Path(file.name)
            file.write(content)
    except OSError as error:
        raise BuildError(f"{out}: can't be written: {error.strerror}") from error
    try:
        with _refusing(folder):
            vocabulary = load(unproven)
            proof = None if vocabulary.tokenizer else prove(vocabulary, source.tokens.authority)
        unproven.chmod(0o644)
        unproven.replace(path)
    except OSError as error:
        unproven.unlink()
        raise BuildError(f"{path}: can't be written: {error.strerror}") from error
    except BaseException:
        unproven.unlink()
        raise
    return Built(path, proof, source.unknown)


@contextlib.contextmanager
def _refusing(folder: Path) -> Iterator[None]:
    """Refuse a tokenizer whose texts are none, or that a library fails at."""
    try:
        with catch_panics():
            yield
    except UnicodeEncodeError as error:
        raise BuildError(f"{folder}: text that is no Unicode: {error}") from error
    except TokenizersError as error:
        raise BuildError(f"{folder}: its library fails at it: {error}") from error


def _manifest(
    source: Source,
    name: str,
    *,
    origin: str,
    revision: str | None,
    licence: str | None,
    tool_call_parser: str | None,
    reasoning_parser: str | None,
) -> Manifest:
    tokens, configuration = source.tokens, source.configuration
    manifest = Manifest(
        name=name,
        rule=tokens.rule,
        size=len(source.pieces),
        named=tokens.named,
        eos_token_id=tokens.eos_token_id,
        stop_token_ids=source.stop_token_ids,
        special_token_ids=tokens.special_token_ids,
        added_token_ids=tokens.added_token_ids,
        byte_token_ids=tokens.byte_token_ids,
        strip_leading_space=tokens.strip_leading_space,
        max_model_len=configuration.max_model_len,
        tool_call_parser=tool_call_parser,
        reasoning_parser=reasoning_parser,
        response_template=configuration.tokenizer.response_template if configuration.tokenizer else None,
        source=origin,
        source_format=tokens.format,
        source_sha256=tokens.sha256,
        source_revision=revision,
        origins=source.origins,
        licence=licence,
    )
    return replace(manifest, fingerprint=compute_fingerprint(manifest, source.pieces, tokens.tokenizer_json))
