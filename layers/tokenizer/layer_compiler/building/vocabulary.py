"""Compile one tokenizer into one vocabulary file."""

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
    replace_manifest,
)
from layer_compiler.errors import LayerError
from layer_compiler.formats import parse_folder
from layer_compiler.inference import NO_PARSER, choose_parsers, find_generation_prompts

from .names import check_name, file_name, refuse_other_vocabulary
from .proof import Proof, prove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layer_compiler.formats.parsed import ParsedModel

__all__ = ["BuiltVocabulary", "build", "place"]


class BuiltVocabulary(NamedTuple):
    """A vocabulary of a layer."""

    path: Path
    manifest: Manifest
    proof: Proof | None = None
    """None if the `tokenizers` library decodes, or if the vocabulary was compiled before."""
    warnings: tuple[str, ...] = ()
    """Missing facts and their consequences."""


def build(
    folder: Path,
    name: str,
    out: Path,
    *,
    licence: str | None = None,
    origin: str | None = None,
    revision: str | None = None,
    max_model_len: int | None = None,
    tool_call_parser: str = NO_PARSER,
    reasoning_parser: str = NO_PARSER,
    repository: str | None = None,
) -> BuiltVocabulary:
    """Compile the tokenizer in a folder, prove the result and write it.

    Args:
        folder: A tokenizer of one of the formats (`layer_compiler.formats`), and perhaps configuration files.
        name: The model's name, as clients send it.
        out: The folder to write to, created if needed. An earlier vocabulary of the same name is replaced.
        licence: The tokenizer's licence, for people.
        origin: Where the tokenizer came from, for people; the default is the folder's name.
        revision: The version of the tokenizer, for people.
        max_model_len: The longest sequence; the default is what the configuration files say.
        tool_call_parser: The name of a parser, `none`, or `auto` to infer it.
        reasoning_parser: The name of a parser, `none`, or `auto` to infer it.
        repository: The repository's name, which tells more about parsers than the model's.

    Raises:
        LayerError: The tokenizer can't be compiled; nothing was written.
    """
    path = out / file_name(check_name(name))
    refuse_other_vocabulary(path, name)
    with _refuse_bad_text(folder):
        model = parse_folder(folder)
        manifest = _describe(model, name, origin or folder.resolve().name, licence, revision)
        content = dump(manifest, model.pieces, model.tokenizer.tokenizer_json)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".unproven-") as work:
            # Without the suffix of a vocabulary, nothing takes it for one.
            draft, final = Path(work, "draft"), Path(work, "final")
            draft.write_bytes(content)
            with _refuse_bad_text(folder):
                vocabulary = load(draft)
                proof = None if vocabulary.tokenizer else prove(vocabulary, model.tokenizer.library)
                config = model.configuration.tokenizer
                prompts, doubts = find_generation_prompts(
                    folder, vocabulary, model.tokenizer.library, config.named_tokens if config else {}
                )
            choice = choose_parsers(
                folder,
                repository or name,
                vocabulary,
                tool_call_parser=tool_call_parser,
                reasoning_parser=reasoning_parser,
            )
            origins = {**manifest.origins, **choice.origins}
            if max_model_len is not None:
                origins["max_model_len"] = "given"
                manifest = replace(manifest, max_model_len=max_model_len)
            if prompts:
                origins["generation_prompts"] = "chat template"
            manifest = replace(
                manifest,
                **choice.parsers,
                generation_prompts=prompts,
                origins=dict(sorted(origins.items())),
            )
            final.write_bytes(replace_manifest(content, manifest))
            place(final, path)
    except OSError as error:
        raise LayerError(f"{out}: can't be written: {error.strerror}") from error
    return BuiltVocabulary(path, manifest, proof, (*model.warnings, *choice.warnings, *doubts))


def place(file: Path, path: Path) -> None:
    """Move a finished file to its place, readable by everyone: Lambda runs as another user."""
    file.chmod(0o644)
    file.replace(path)


@contextlib.contextmanager
def _refuse_bad_text(folder: Path) -> Iterator[None]:
    """Refuse a tokenizer with text that is not Unicode, or that makes the library panic."""
    try:
        with catch_panics():
            yield
    except UnicodeEncodeError as error:
        raise LayerError(f"{folder}: text that is not Unicode: {error}") from error
    except TokenizersError as error:
        raise LayerError(f"{folder}: the tokenizers library fails: {error}") from error


def _describe(
    model: ParsedModel, name: str, origin: str, licence: str | None, revision: str | None
) -> Manifest:
    tokenizer, configuration = model.tokenizer, model.configuration
    manifest = Manifest(
        name=name,
        rule=tokenizer.rule,
        size=len(model.pieces),
        named=tokenizer.named,
        eos_token_id=tokenizer.eos_token_id,
        stop_token_ids=model.stop_token_ids,
        special_token_ids=tokenizer.special_token_ids,
        added_token_ids=tokenizer.added_token_ids,
        byte_token_ids=tokenizer.byte_token_ids,
        strip_leading_space=tokenizer.strip_leading_space,
        max_model_len=configuration.max_model_len,
        response_template=configuration.tokenizer.response_template if configuration.tokenizer else None,
        source=origin,
        source_format=tokenizer.format,
        source_sha256=tokenizer.sha256,
        source_revision=revision,
        origins=model.origins,
        licence=licence,
    )
    return replace(manifest, fingerprint=compute_fingerprint(manifest, model.pieces, tokenizer.tokenizer_json))
