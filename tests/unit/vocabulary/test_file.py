"""The compiled file: what is written is read, and damaged files are refused."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.vocabulary import (
    MAX_SIZE,
    Manifest,
    VersionError,
    Vocabulary,
    VocabularyError,
    dump,
    load,
    read_manifest,
)
from tests.support.small_tokenizers import metaspace_tokenizer
from tests.support.vocabularies import file_content, loaded, manifest

from .manifests import manifests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from derender.vocabulary import Rule


PIECES: Final = [b"Hello", b"", b"<end>"]
REQUIRED: Final = {
    "name": "tiny",
    "rule": "byte-level",
    "size": 3,
    "named": 2,
    "eos_token_id": 2,
    "stop_token_ids": [2],
    "special_token_ids": [2],
    "source": "a folder",
    "source_sha256": "ab" * 32,
}
READERS: Final[list[Callable[[Path], Vocabulary | Manifest]]] = [load, read_manifest]
reader = pytest.mark.parametrize("read", READERS)


def json_manifest(**changes: Any) -> bytes:
    return json.dumps({**REQUIRED, **changes}).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tiny.vocab"


@given(about=manifests, pieces=st.lists(st.binary(max_size=6), min_size=1, max_size=20))
def test_a_dumped_file_is_loaded(about: Manifest, pieces: list[bytes]) -> None:
    about = msgspec.structs.replace(about, size=len(pieces))
    vocabulary = loaded(dump(about, pieces))
    assert vocabulary.manifest == about
    assert [vocabulary.pieces[token_id] for token_id in range(len(pieces))] == pieces
    assert vocabulary.special == set(about.special_token_ids)
    assert vocabulary.byte_tokens == set(about.byte_token_ids)
    assert vocabulary.tokenizer is None


def test_a_whole_tokenizer_is_dumped_and_loaded() -> None:
    tokenizer = metaspace_tokenizer()
    content = dump(manifest(rule="tokenizers"), PIECES, tokenizer.to_str().encode())
    vocabulary = loaded(content)
    assert vocabulary.tokenizer is not None
    hello = tokenizer.encode("Hello").ids[0]
    assert vocabulary.tokenizer.id_to_token(hello) == "▁Hello"
    assert [vocabulary.pieces[n] for n in range(3)] == PIECES


@pytest.mark.parametrize("rule", ["byte-level", "byte-fallback"])
def test_extra_bytes_after_the_ids_are_refused(path: Path, rule: Rule) -> None:
    path.write_bytes(dump(manifest(rule=rule), PIECES, b"more"))
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


def test_dump_writes_the_documented_format() -> None:
    about = manifest()
    content = dump(about, PIECES)
    assert content == file_content(msgspec.json.encode(about), PIECES)


def test_a_file_of_the_documented_format_is_loaded(path: Path) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES))
    vocabulary = load(path)
    assert [vocabulary.pieces[n] for n in range(3)] == PIECES
    assert vocabulary.manifest.name == "tiny"
    assert vocabulary.manifest.stop_token_ids == (2,)
    assert read_manifest(path) == vocabulary.manifest


def test_fields_that_may_be_left_out_have_defaults(path: Path) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES))
    about = read_manifest(path)
    assert (about.added_token_ids, about.byte_token_ids) == ((), ())
    assert about.strip_leading_space is False
    assert (about.max_model_len, about.licence) == (None, None)
    assert (about.tool_call_parser, about.reasoning_parser, about.response_template) == (None, None, None)
    assert about.generation_prompts == ()


def test_a_flipped_bit_anywhere_is_refused(path: Path) -> None:
    content = file_content(json_manifest(), PIECES)
    for place in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
                load(path)


def test_a_file_cut_at_any_length_is_refused(path: Path) -> None:
    content = file_content(json_manifest(), PIECES)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
            load(path)


def test_the_manifest_of_a_damaged_file_is_read_or_refused(path: Path) -> None:
    content = file_content(json_manifest(), PIECES)
    for place in range(len(content)):
        path.write_bytes(content[:place])
        with contextlib.suppress(VocabularyError):
            read_manifest(path)
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :])
        with contextlib.suppress(VocabularyError):
            read_manifest(path)


def test_a_file_with_something_after_its_end_is_refused(path: Path) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES) + b"\0")
    with pytest.raises(VocabularyError, match="damaged"):
        load(path)


@reader
@pytest.mark.parametrize("version", [0, 1, 2, 4, 2**32 - 1])
def test_another_version_is_refused_with_what_to_do(
    path: Path, read: Callable[[Path], object], version: int
) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES, version=version))
    with pytest.raises(VersionError, match=rf"version {version}\b.*build the layer again"):
        read(path)


@reader
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"derender", id="magic alone"),
        pytest.param(b'{"model": {"type": "BPE"}, "padding": "................"}', id="tokenizer.json"),
        pytest.param(b"DERENDER" + bytes(64), id="another magic"),
        pytest.param(bytes(64), id="zeros"),
    ],
)
def test_other_files_are_refused(path: Path, read: Callable[[Path], object], content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        read(path)


@reader
def test_a_missing_file_is_refused(path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(VocabularyError, match=r"tiny\.vocab.*No such file"):
        read(path)


@reader
def test_a_folder_is_refused(path: Path, read: Callable[[Path], object]) -> None:
    path.mkdir()
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        read(path)


@reader
def test_unknown_manifest_fields_are_ignored(path: Path, read: Callable[[Path], object]) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES))
    expected = read_manifest(path)
    path.write_bytes(file_content(json_manifest(colour="blue", nested={"a": [1]}), PIECES))
    read(path)
    assert read_manifest(path) == expected


@reader
@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_manifest_field_is_refused(path: Path, read: Callable[[Path], object], name: str) -> None:
    values = {field: value for field, value in REQUIRED.items() if field != name}
    path.write_bytes(file_content(json.dumps(values).encode(), PIECES))
    with pytest.raises(VocabularyError, match=rf"tiny\.vocab.*`{name}`"):
        read(path)


@reader
@pytest.mark.parametrize("text", [b"[]", b"null", b"1", b'"name"', b"{", b"", b"\xff{}", b"[" * 100_000])
def test_a_manifest_that_is_not_an_object_is_refused(
    path: Path, read: Callable[[Path], object], text: bytes
) -> None:
    path.write_bytes(file_content(text, PIECES))
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        read(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 4),
        ("size", 2),
        ("size", "3"),
        ("size", None),
        ("rule", "tokenizers"),
        ("rule", "of another version"),
        ("rule", None),
        ("special_token_ids", 5),
        ("special_token_ids", None),
        ("stop_token_ids", None),
        ("byte_token_ids", "12"),
        ("added_token_ids", None),
        ("added_token_ids", [-1]),
        ("added_token_ids", [MAX_SIZE]),
        ("added_token_ids", ["1"]),
        ("generation_prompts", [{"token_ids": [3]}]),
        ("generation_prompts", [{"token_ids": [0] * 65}]),
        ("generation_prompts", [{"token_ids": [0], "arguments": {"enable_thinking": "no"}}]),
        ("generation_prompts", [{"arguments": {}}]),
        ("response_template", []),
        ("response_template", "{}"),
        ("special_token_ids", [[1]]),
    ],
)
def test_a_manifest_with_invalid_values_is_refused(path: Path, name: str, value: object) -> None:
    path.write_bytes(file_content(json_manifest(**{name: value}), PIECES))
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


@pytest.mark.parametrize("count", [0, 2, 4, 1000, 2**32 - 1])
def test_a_count_that_differs_from_the_manifests_is_refused(path: Path, count: int) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES, count=count))
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


def test_a_tokenizer_that_the_library_refuses_is_refused(path: Path) -> None:
    content = dump(manifest(rule="tokenizers"), PIECES, b'{"model": {"type": "of a newer library"}}')
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


@pytest.mark.parametrize("offsets", [[0, 7, 5, 10], [0, 9, 5, 10], [0, 2**32 - 1, 5, 10], [0, 5, 11, 10]])
def test_offsets_out_of_order_are_refused(path: Path, offsets: list[int]) -> None:
    content = bytearray(dump(manifest(), PIECES))
    start = content.index(struct.pack("<4I", 0, 5, 5, 10))
    content[start : start + 16] = struct.pack("<4I", *offsets)
    content[12:16] = struct.pack("<I", zlib.crc32(content[16:]))
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"the offsets are not in order"):
        load(path)
    vocabulary = load(path, check_order=False)
    with pytest.raises(VocabularyError, match=r"the offsets of id \d are not in order"):
        [vocabulary.pieces[token_id] for token_id in range(3)]
