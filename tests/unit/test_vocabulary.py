"""The compiled file: what is written is read, and nothing else is."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.vocabulary import (
    MAX_LENGTH,
    MAX_SIZE,
    Manifest,
    VersionError,
    Vocabulary,
    VocabularyError,
    compute_fingerprint,
    dump,
    load,
    read_manifest,
)
from tests.support.json_mutations import json_values
from tests.support.small_tokenizers import metaspace_tokenizer, word_piece_tokenizer
from tests.support.vocabularies import file_content, library, loaded, manifest, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

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

ids = st.integers(0, MAX_SIZE - 1)
tuples = st.lists(ids, max_size=3).map(tuple)
manifests = st.builds(
    Manifest,
    name=st.text(max_size=9),
    rule=st.sampled_from(("byte-level", "byte-fallback")),
    size=st.just(0),
    named=ids,
    eos_token_id=st.none() | ids,
    stop_token_ids=tuples,
    special_token_ids=tuples,
    added_token_ids=tuples,
    byte_token_ids=tuples,
    strip_leading_space=st.booleans(),
    max_model_len=st.none() | st.integers(1, MAX_LENGTH),
    tool_call_parser=st.none() | st.text(max_size=9),
    reasoning_parser=st.none() | st.text(max_size=9),
    response_template=st.none() | st.dictionaries(st.text(max_size=6), json_values, max_size=3),
    source=st.text(max_size=9),
    source_format=st.sampled_from(("tokenizer.json", "tekken", "tiktoken", "sentencepiece")),
    source_sha256=st.text(max_size=9),
    source_revision=st.none() | st.text(max_size=9),
    origins=st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3),
    fingerprint=st.text(max_size=9),
    licence=st.none() | st.text(max_size=9),
)


def json_manifest(**changes: Any) -> bytes:
    return json.dumps({**REQUIRED, **changes}).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tiny.vocab"


@given(about=manifests, pieces=st.lists(st.binary(max_size=6), min_size=1, max_size=20))
def test_what_is_dumped_is_loaded(about: Manifest, pieces: list[bytes]) -> None:
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
def test_more_after_the_ids_bytes_is_refused(path: Path, rule: Rule) -> None:
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
def test_what_is_no_vocabulary_is_refused(path: Path, read: Callable[[Path], object], content: bytes) -> None:
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
def test_a_manifest_that_is_no_object_is_refused(
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
        ("response_template", []),
        ("response_template", "{}"),
        ("special_token_ids", [[1]]),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(path: Path, name: str, value: object) -> None:
    path.write_bytes(file_content(json_manifest(**{name: value}), PIECES))
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


@pytest.mark.parametrize("count", [0, 2, 4, 1000, 2**32 - 1])
def test_a_count_that_is_not_the_manifests_is_refused(path: Path, count: int) -> None:
    path.write_bytes(file_content(json_manifest(), PIECES, count=count))
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


def test_a_tokenizer_that_the_library_refuses_is_refused(path: Path) -> None:
    content = dump(manifest(rule="tokenizers"), PIECES, b'{"model": {"type": "of a newer library"}}')
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"tiny\.vocab"):
        load(path)


# --- the fingerprint ------------------------------------------------------------------------------------------


def test_the_fingerprint_is_the_documented_hash() -> None:
    about = manifest(
        rule="byte-fallback", special_token_ids=(2, 0), byte_token_ids=(1,), strip_leading_space=True
    )
    hashed = (
        b"\x0d\0\0\0byte-fallback\x01\0\0\0\x03\0\0\0"
        b"\x05\0\0\0Hello\0\0\0\0\x05\0\0\0<end>"
        b"\x02\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0"
    )
    assert compute_fingerprint(about, PIECES) == hashlib.sha256(hashed).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "byte-fallback"},
        {"special_token_ids": (1,)},
        {"byte_token_ids": (1,)},
        {"strip_leading_space": True},
        {"size": 4},
    ],
)
def test_what_decodes_otherwise_has_another_fingerprint(changes: dict[str, Any]) -> None:
    assert compute_fingerprint(manifest(**changes), PIECES) != compute_fingerprint(manifest(), PIECES)


@pytest.mark.parametrize(
    "pieces", [[b"Hell", b"o", b"<end>"], [b"Hello", b"<end>", b""], [b"Hello<end>", b"", b""]]
)
def test_other_pieces_have_another_fingerprint(pieces: list[bytes]) -> None:
    assert compute_fingerprint(manifest(), pieces) != compute_fingerprint(manifest(), PIECES)


def test_another_decoder_of_the_library_has_another_fingerprint() -> None:
    about = manifest(rule="tokenizers")
    assert compute_fingerprint(about, PIECES, b"{}") != compute_fingerprint(about, PIECES, b"{ }")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "another"},
        {"eos_token_id": None, "stop_token_ids": ()},
        {"source": "elsewhere", "source_format": "tekken", "source_sha256": "0", "source_revision": "1"},
        {"tool_call_parser": "hermes", "max_model_len": 5, "licence": "MIT", "origins": {"size": "a"}},
        {"added_token_ids": (1, 2)},
    ],
)
def test_what_decodes_the_same_has_the_same_fingerprint(changes: dict[str, Any]) -> None:
    assert compute_fingerprint(manifest(**changes), PIECES) == compute_fingerprint(manifest(), PIECES)


# --- added tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "added", "texts"),
    [
        pytest.param([b"Hello", b"<think>", b"<end>"], (1, 2), {"<think>": 1, "<end>": 2}, id="some"),
        pytest.param([b"Hello"], (), {}, id="none"),
        pytest.param(
            ["größe ∞".encode(), b" <a> ", b"\n"], (0, 1, 2), {"größe ∞": 0, " <a> ": 1, "\n": 2}, id="text"
        ),
        pytest.param([b"", b"\xff", b"\xe2\x88", b"<a>"], (0, 1, 2, 3), {"<a>": 3}, id="empty, no UTF-8"),
        pytest.param([b"<a>", b"<b>", b"<a>", b"<a>"], (1, 2, 3), {"<b>": 1, "<a>": 2}, id="one text twice"),
        pytest.param([b"<b>", b"<a>", b"<a>"], (2, 1), {"<a>": 1}, id="not sorted"),
        pytest.param([b"<a>"], (0, 1, MAX_SIZE - 1), {"<a>": 0}, id="beyond the vocabulary"),
    ],
)
@pytest.mark.parametrize("rule", ["byte-level", "byte-fallback"])
def test_added_tokens_by_text(
    rule: Rule, pieces: list[bytes], added: tuple[int, ...], texts: dict[str, int]
) -> None:
    assert vocabulary(pieces, rule, added_token_ids=added).added_tokens() == texts


@pytest.mark.parametrize("strip", [True, False])
def test_added_tokens_of_one_that_drops_a_texts_first_space_keep_theirs(*, strip: bool) -> None:
    spaced = vocabulary([b" <a>", b"<b>"], "byte-fallback", added_token_ids=(0, 1), strip_leading_space=strip)
    assert spaced.added_tokens() == {" <a>": 0, "<b>": 1}


@pytest.mark.parametrize("make", [metaspace_tokenizer, word_piece_tokenizer])
def test_added_tokens_of_a_whole_tokenizer(make: Callable[[], Tokenizer]) -> None:
    tokenizer = make()
    added = {token.content: n for n, token in tokenizer.get_added_tokens_decoder().items()}
    assert added
    assert library(tokenizer, added_token_ids=tuple(sorted(added.values()))).added_tokens() == added


@given(about=manifests, pieces=st.lists(st.binary(max_size=3), min_size=1, max_size=20))
def test_added_tokens_of_any_manifest(about: Manifest, pieces: list[bytes]) -> None:
    added = tuple(range(len(pieces)))
    about = msgspec.structs.replace(about, size=len(pieces), added_token_ids=added)
    texts = loaded(dump(about, pieces)).added_tokens()
    assert all(pieces[token_id] == text.encode() for text, token_id in texts.items())
    assert all(piece not in pieces[:n] for n, piece in enumerate(pieces) if n in texts.values())


def test_the_bundled_vocabulary_knows_its_ids(bundled: Vocabulary) -> None:
    known = {
        0: b"!",
        11: b",",
        1879: b" world",
        5691: "\ufffd".encode(),
        9707: b"Hello",
        102356: "東".encode(),
        151643: b"<|endoftext|>",
        151645: b"<|im_end|>",
        151668: b"</think>",
    }
    assert {token_id: bundled.pieces[token_id] for token_id in known} == known
    about = bundled.manifest
    assert about.rule == "byte-level"
    assert about.eos_token_id == 151645
    assert about.stop_token_ids == (151643, 151645)
    assert {151643, 151645} <= bundled.special
    assert not {151657, 151658, 151667, 151668} & bundled.special
    assert about.added_token_ids == tuple(range(151643, 151669))
    assert (about.tool_call_parser, about.reasoning_parser) == ("hermes", "qwen3")


def test_the_bundled_vocabulary_knows_its_markers(bundled: Vocabulary) -> None:
    texts = bundled.added_tokens()
    assert len(texts) == 26
    markers = {"<tool_call>": 151657, "</tool_call>": 151658, "<think>": 151667, "</think>": 151668}
    assert markers.items() <= texts.items()


def test_the_bundled_vocabulary_pads_up_to_the_embedding_rows(bundled: Vocabulary) -> None:
    assert bundled.manifest.size == 151936
    assert bundled.manifest.named == 151669
    assert all(bundled.pieces[token_id] for token_id in range(151669))
    assert not any(bundled.pieces[token_id] for token_id in range(151669, 151936))
