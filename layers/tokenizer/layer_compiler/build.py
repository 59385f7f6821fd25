"""Compile one tokenizer into one file."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from derender.vocabulary import SUFFIX, Manifest, VersionError, dump, is_panic, load, read_manifest

from .errors import BuildError
from .proof import Proof, prove
from .rules import byte_tokens, pieces, rule_of, strips_leading_space
from .source import Source, read_folder

__all__ = ["Built", "build"]

_LONGEST_NAME: Final = 200

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")


class Built(NamedTuple):
    """A compiled vocabulary."""

    path: Path
    """The file."""
    proof: Proof | None
    """What was proven; None where the `tokenizers` library itself decodes."""
    unknown: tuple[str, ...]
    """What the folder does not say, and what follows."""


def build(
    folder: Path,
    name: str,
    out: Path,
    *,
    licence: str | None = None,
    origin: str | None = None,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
) -> Built:
    """Compile the tokenizer in a folder and write it, once it is proven.

    Args:
        folder: Holds tokenizer.json, and configuration files where there are any.
        name: The model's name, as clients send it.
        out: Folder to write to, made if need be; another vocabulary of the same name is replaced.
        licence: The tokenizer's licence, for people.
        origin: Where it came from, for people; by default the folder's name.
        tool_call_parser: The model's parser of tool calls, under the name of vLLM's flag; not checked here.
        reasoning_parser: Its parser of reasoning, likewise.

    Raises:
        BuildError: It can't be compiled; nothing was written.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise BuildError(
            f"name {name[:_LONGEST_NAME]!r}: letters, digits and ._:@+- in parts divided by /, "
            f"{_LONGEST_NAME} characters at most"
        )
    source = read_folder(folder)
    path = out / (name.replace("/", "--") + SUFFIX)
    if path.is_file():
        # Of another version, its name can't be read, and to build it again is what is asked for.
        with contextlib.suppress(VersionError):
            if (other := read_manifest(path).name) != name:
                raise BuildError(f"{path}: holds {other}; build {name} into another folder")
    try:
        content = _compile(
            source,
            name,
            origin=origin or folder.resolve().name,
            licence=licence,
            tool_call_parser=tool_call_parser,
            reasoning_parser=reasoning_parser,
        )
    except UnicodeEncodeError as error:
        raise BuildError(f"{folder}: text that is no Unicode: {error}") from error
    except BaseException as error:
        _refuse_panic(folder, error)
        raise
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Not of the name of a vocabulary: until it is proven, nothing takes it for one.
        with tempfile.NamedTemporaryFile(dir=out, suffix=".unproven", delete=False) as file:
            unproven = Path(file.name)
            file.write(content)
    except OSError as error:
        raise BuildError(f"{out}: can't be written: {error.strerror}") from error
    try:
        vocabulary = load(unproven)
        proof = None if vocabulary.tokenizer else prove(vocabulary, source.tokenizer)
        unproven.chmod(0o644)
        unproven.replace(path)
    except OSError as error:
        unproven.unlink()
        raise BuildError(f"{path}: can't be written: {error.strerror}") from error
    except BaseException as error:
        unproven.unlink()
        _refuse_panic(folder, error)
        raise
    return Built(path, proof, source.unknown)


def _refuse_panic(folder: Path, error: BaseException) -> None:
    if is_panic(error):
        raise BuildError(f"{folder}: the tokenizers library fails to decode: {error}") from error


def _compile(
    source: Source,
    name: str,
    *,
    origin: str,
    licence: str | None,
    tool_call_parser: str | None,
    reasoning_parser: str | None,
) -> bytes:
    rule = rule_of(source.definition)
    vocab = source.tokenizer.get_vocab(with_added_tokens=True)
    # By id: two names of one id are settled as the library does.
    tokens = {token_id: source.tokenizer.id_to_token(token_id) or "" for token_id in vocab.values()}
    manifest = Manifest(
        name=name,
        rule=rule,
        size=source.size,
        named=len(tokens),
        eos_token_id=source.eos_token_id,
        stop_token_ids=source.stop_token_ids,
        special_token_ids=source.special_token_ids,
        added_token_ids=source.added_token_ids,
        byte_token_ids=byte_tokens(source.definition, tokens),
        strip_leading_space=rule == "byte-fallback" and strips_leading_space(source.definition),
        max_model_len=source.max_model_len,
        tool_call_parser=tool_call_parser,
        reasoning_parser=reasoning_parser,
        response_template=source.response_template,
        source=origin,
        source_sha256=source.sha256,
        licence=licence,
    )
    own = pieces(source.definition, source.tokenizer, tokens, source.size)
    library = json.dumps(source.definition, ensure_ascii=False).encode() if rule == "tokenizers" else b""
    return dump(manifest, own, library)
