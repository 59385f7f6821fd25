"""The compiler: small tokenizers made here, and folders that can't be compiled."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders

from derender.vocabulary import Vocabulary, load
from fetch import NAMES
from layer_compiler import BuildError, build
from tests.support.json_mutations import json_values, mutated
from tests.support.small_tokenizers import (
    WORDS,
    byte_level_tokenizer,
    id_of,
    sentence_piece_tokenizer,
    word_piece_tokenizer,
    write_folder,
)
from tests.support.vocabularies import file_content

from .conftest import SYNTHETIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .conftest import Compiled


def compile_folder(folder: Path, name: str = "tiny") -> Vocabulary:
    """Compile a folder, and load what was written."""
    path, *_ = build(folder, name, folder / "out")
    return load(path)


def refused(folder: Path, name: str = "tiny") -> str:
    """Why a folder is refused; nothing may be written."""
    out = folder.parent / "written"
    with pytest.raises(BuildError) as error:
        build(folder, name, out)
    assert not out.exists() or not list(out.iterdir())
    assert str(error.value)
    return str(error.value)


# --- what is compiled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule", "strips"),
    [
        ("byte-level", "byte-level", False),
        ("spacing", "byte-fallback", False),
        ("stripping", "byte-fallback", True),
        ("metaspace", "tokenizers", False),
        ("word-piece", "tokenizers", False),
    ],
)
def test_the_decoder_tells_the_rule(compiled: Compiled, name: str, rule: str, strips: bool) -> None:
    about = compiled(name)[0].manifest
    assert about.rule == rule
    assert about.strip_leading_space is strips
    assert (compiled(name)[0].tokenizer is not None) == (rule == "tokenizers")


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping"])
def test_pieces_are_the_tokens_bytes(compiled: Compiled, name: str) -> None:
    vocabulary, tokenizer = compiled(name)
    for word in WORDS:
        token_ids = tokenizer.encode(word, add_special_tokens=False).ids
        pieces = b"".join(vocabulary.pieces[token_id] for token_id in token_ids)
        # SentencePiece writes a space before a text.
        assert pieces.decode() == (" " if name == "stripping" else "") + word


def test_every_byte_has_a_piece(compiled: Compiled) -> None:
    vocabulary, _ = compiled("byte-level")
    assert {vocabulary.pieces[n] for n in range(256)} == {bytes([byte]) for byte in range(256)}


@pytest.mark.parametrize("name", ["spacing", "stripping"])
def test_byte_tokens_are_known(compiled: Compiled, name: str) -> None:
    vocabulary, _ = compiled(name)
    assert vocabulary.manifest.byte_token_ids == tuple(range(3, 259))
    assert [vocabulary.pieces[3 + byte] for byte in range(256)] == [bytes([byte]) for byte in range(256)]


def test_an_added_token_is_written_as_it_is(compiled: Compiled) -> None:
    vocabulary, tokenizer = compiled("byte-level")
    ids = [id_of(tokenizer, token) for token in ("<think>", "größe ∞", "<|end|>")]
    assert [vocabulary.pieces[n] for n in ids] == [b"<think>", "größe ∞".encode(), b"<|end|>"]


def test_the_manifest_says_where_it_comes_from(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a-folder", byte_level_tokenizer())
    path, *_ = build(folder, "org/name-1.5", tmp_path / "out", licence="Apache-2.0")
    about = load(path).manifest
    assert path == tmp_path / "out" / "org--name-1.5.vocab"
    assert about.name == "org/name-1.5"
    assert about.source == "a-folder"
    assert about.licence == "Apache-2.0"
    assert about.source_sha256 == hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    path, *_ = build(folder, "org/name-1.5", tmp_path / "out", origin="elsewhere")
    assert load(path).manifest.source == "elsewhere"
    assert load(path).manifest.licence is None


def test_the_manifest_names_the_parsers_that_are_given(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    path, *_ = build(folder, "tiny", tmp_path / "out", tool_call_parser="hermes", reasoning_parser="qwen3")
    about = load(path).manifest
    assert (about.tool_call_parser, about.reasoning_parser) == ("hermes", "qwen3")
    path, *_ = build(folder, "tiny", tmp_path / "out")
    about = load(path).manifest
    assert (about.tool_call_parser, about.reasoning_parser) == (None, None)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, make in SYNTHETIC.items():
        contents = set()
        for attempt in ("a", "b"):
            folder = write_folder(tmp_path / attempt / name, make(), config={"vocab_size": 600})
            path, *_ = build(folder, name, tmp_path / attempt / "out")
            contents.add(path.read_bytes())
        assert len(contents) == 1


def test_a_vocabulary_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    build(folder, "tiny", tmp_path / "out")
    build(folder, "tiny", tmp_path / "out", licence="MIT")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny.vocab"]
    assert load(tmp_path / "out" / "tiny.vocab").manifest.licence == "MIT"


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_vocabulary_of_another_format_version_is_replaced(tmp_path: Path, version: int) -> None:
    """What loading it asks for is to build it again."""
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    path, *_ = build(folder, "tiny", tmp_path / "out")
    fresh = path.read_bytes()
    path.write_bytes(file_content(b'{"name": "of another version"}', [], version=version))
    build(folder, "tiny", tmp_path / "out")
    assert path.read_bytes() == fresh


def test_a_vocabulary_of_another_name_is_not_replaced(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    path, *_ = build(folder, "a/b", tmp_path / "out")
    before = path.read_bytes()
    with pytest.raises(BuildError, match="holds a/b"):
        build(folder, "a--b", tmp_path / "out")
    assert path.read_bytes() == before


def test_a_refused_folder_leaves_the_vocabulary_that_is_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    path, *_ = build(folder, "tiny", tmp_path / "out")
    before = path.read_bytes()
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BuildError):
        build(folder, "tiny", tmp_path / "out")
    assert [written.name for written in path.parent.iterdir()] == ["tiny.vocab"]
    assert path.read_bytes() == before


# --- configuration files --------------------------------------------------------------------------------------


def ids(*tokens: str) -> tuple[int, ...]:
    tokenizer = byte_level_tokenizer()
    return tuple(sorted(id_of(tokenizer, token) for token in tokens))


END, STOP, PAD, THINK = (ids(token)[0] for token in ("<|end|>", "<|stop|>", "<|pad|>", "<think>"))
ADDED: Final = ids("<|end|>", "<|stop|>", "<|pad|>", "<think>", "größe ∞")
NAMED: Final = 1 + max(byte_level_tokenizer().get_vocab().values())


@pytest.mark.parametrize(
    ("configs", "eos", "stops"),
    [
        pytest.param({}, None, (), id="no configuration"),
        pytest.param({"tokenizer_config": {"eos_token": "<|end|>"}}, END, (END,), id="a string"),
        pytest.param({"tokenizer_config": {"eos_token": {"content": "<|end|>"}}}, END, (END,), id="an object"),
        pytest.param({"tokenizer_config": {"eos_token": None}}, None, (), id="null"),
        pytest.param({"tokenizer_config": {"eos_token": "<|unknown|>"}}, None, (), id="an unknown token"),
        pytest.param({"generation_config": {"eos_token_id": STOP}}, None, (STOP,), id="one stop id"),
        pytest.param({"generation_config": {"eos_token_id": [STOP, END]}}, None, (END, STOP), id="stop ids"),
        pytest.param({"generation_config": {"eos_token_id": None}}, None, (), id="a null stop id"),
        pytest.param({"config": {"eos_token_id": STOP}}, None, (STOP,), id="the model's"),
        pytest.param(
            {"generation_config": {"eos_token_id": PAD}, "config": {"eos_token_id": STOP}},
            None,
            (PAD,),
            id="both",
        ),
        pytest.param(
            {"generation_config": {"temperature": 0.6}, "config": {"eos_token_id": STOP}},
            None,
            (),
            id="a generation configuration without one",
        ),
        pytest.param({"config": {"text_config": {"eos_token_id": STOP}}}, None, (STOP,), id="the text model's"),
        pytest.param(
            {"tokenizer_config": {"eos_token": "<|end|>"}, "generation_config": {"eos_token_id": [STOP, STOP]}},
            END,
            (END, STOP),
            id="the tokenizer's is among them",
        ),
    ],
)
def test_ids_that_end_a_generation(
    tmp_path: Path, configs: dict[str, Any], eos: int | None, stops: tuple[int, ...]
) -> None:
    about = compile_folder(write_folder(tmp_path, byte_level_tokenizer(), **configs)).manifest
    assert about.eos_token_id == eos
    assert about.stop_token_ids == tuple(sorted(stops))


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        pytest.param(None, ["<|end|>", "<|stop|>", "<|pad|>"], id="no configuration: all that are flagged"),
        pytest.param({"eos_token": "<|end|>"}, ["<|end|>"], id="one"),
        pytest.param(
            {"eos_token": "<|end|>", "pad_token": {"content": "<|pad|>"}}, ["<|end|>", "<|pad|>"], id="two"
        ),
        pytest.param(
            {"additional_special_tokens": ["<|stop|>", "<think>"]}, ["<|stop|>", "<think>"], id="a list"
        ),
        pytest.param(
            {"additional_special_tokens": [{"content": "<|stop|>"}]}, ["<|stop|>"], id="a list of objects"
        ),
        pytest.param({"extra_special_tokens": {"image_token": "<|pad|>"}}, ["<|pad|>"], id="names"),
        pytest.param({"extra_special_tokens": ["<|pad|>"]}, ["<|pad|>"], id="a list of more"),
        pytest.param({"additional_special_tokens": None}, [], id="null"),
        pytest.param({"bos_token": "<|unknown|>", "unk_token": None}, [], id="none that exist"),
        pytest.param({"model_max_length": 5}, [], id="a configuration that names none"),
    ],
)
def test_special_ids_are_those_that_are_named(
    tmp_path: Path, config: dict[str, Any] | None, tokens: list[str]
) -> None:
    configs = {} if config is None else {"tokenizer_config": config}
    about = compile_folder(write_folder(tmp_path, byte_level_tokenizer(), **configs)).manifest
    assert about.special_token_ids == ids(*tokens)


def test_tokens_that_the_configuration_adds_are_compiled(tmp_path: Path) -> None:
    config = {
        "added_tokens_decoder": {str(NAMED): {"content": "<extra>", "special": True}},
        "eos_token": "<extra>",
    }
    vocabulary = compile_folder(write_folder(tmp_path, byte_level_tokenizer(), tokenizer_config=config))
    assert vocabulary.pieces[NAMED] == b"<extra>"
    assert vocabulary.manifest.size == vocabulary.manifest.named == NAMED + 1
    assert vocabulary.manifest.eos_token_id == NAMED
    assert vocabulary.special == {NAMED}
    assert vocabulary.manifest.added_token_ids == (*ADDED, NAMED)
    assert vocabulary.added_tokens()["<extra>"] == NAMED


def test_added_tokens_are_known_special_or_not(tmp_path: Path) -> None:
    vocabulary = compile_folder(write_folder(tmp_path, byte_level_tokenizer()))
    assert vocabulary.manifest.added_token_ids == ADDED
    assert vocabulary.added_tokens() == {
        "<|end|>": END,
        "<|stop|>": STOP,
        "<|pad|>": PAD,
        "<think>": THINK,
        "größe ∞": ids("größe ∞")[0],
    }


@pytest.mark.parametrize(
    ("decoder", "added"),
    [
        pytest.param({str(NAMED + 7): {"content": "<a>"}}, {"<a>": NAMED}, id="a gap is closed"),
        pytest.param({str(NAMED): {"content": ""}}, {}, id="an empty one is none"),
        pytest.param(
            {str(NAMED): {"content": "<a>"}, str(NAMED + 1): {"content": "<a>"}},
            {"<a>": NAMED},
            id="one, twice",
        ),
        pytest.param({str(NAMED): {"content": " world"}}, {" world": NAMED}, id="a word"),
        # "!" is of the byte alphabet, and known.
        pytest.param({"0": {"content": "!"}}, {"!": 0}, id="a token that there is"),
    ],
)
def test_added_tokens_are_those_that_the_library_takes(
    tmp_path: Path, decoder: dict[str, Any], added: dict[str, int]
) -> None:
    config = {"added_tokens_decoder": decoder}
    folder = write_folder(tmp_path, byte_level_tokenizer(), tokenizer_config=config)
    texts = compile_folder(folder).added_tokens()
    assert {text: n for text, n in texts.items() if n not in ADDED} == added


@pytest.mark.parametrize("name", NAMES)
def test_added_tokens_of_real_tokenizers_are_their_contents(
    tokenizer: Callable[[str], Path], layer: Callable[[str], Path], name: str
) -> None:
    (path,) = layer(name).glob("*.vocab")
    vocabulary = load(path)
    space = "\u2581" if vocabulary.manifest.rule == "byte-fallback" else " "
    assert vocabulary.added_tokens() == contents(tokenizer(name), space)


@pytest.mark.parametrize(
    ("name", "decoder", "space"),
    [
        pytest.param("deepseek_v3", [decoders.ByteLevel(), decoders.Fuse()], " ", id="deepseek_v3"),
        pytest.param(
            "llama2",
            [
                decoders.ByteFallback(),
                decoders.Replace("\u2581", " "),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ],
            "\u2581",
            id="llama2",
        ),
    ],
)
def test_added_tokens_of_real_tokenizers_that_the_library_decodes_are_their_contents(
    tokenizer: Callable[[str], Path], tmp_path: Path, name: str, decoder: list[Any], space: str
) -> None:
    """With a decoder that has no rule, so that the layer carries them whole."""
    changed = Tokenizer.from_file(str(tokenizer(name) / "tokenizer.json"))
    changed.decoder = decoders.Sequence(decoder)
    vocabulary = compile_folder(write_folder(tmp_path, changed), name)
    assert vocabulary.manifest.rule == "tokenizers"
    assert vocabulary.added_tokens() == contents(tokenizer(name), space)


def contents(folder: Path, space: str) -> dict[str, int]:
    """The added tokens of a tokenizer.json, with what its decoder shows as a space."""
    definition = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return {token["content"].replace(space, " "): token["id"] for token in definition["added_tokens"]}


TEMPLATE: Final = {
    "version": 1,
    "defaults": {"role": "assistant"},
    "fields": {"content": {"close": "<|end|>"}, "größe ∞": [None, True, 1.5, 2**63, "\u0000"]},
}


@pytest.mark.parametrize(
    ("config", "template"),
    [
        pytest.param(None, None, id="no configuration"),
        pytest.param({}, None, id="not given"),
        pytest.param({"response_template": None}, None, id="null"),
        pytest.param({"response_template": {}}, {}, id="empty"),
        pytest.param({"response_template": TEMPLATE}, TEMPLATE, id="given"),
        # What transformers drops: the format before it.
        pytest.param({"response_schema": {"type": "object"}}, None, id="a response schema"),
    ],
)
def test_the_response_template_is_copied_as_it_is(
    tmp_path: Path, config: dict[str, Any] | None, template: dict[str, Any] | None
) -> None:
    configs = {} if config is None else {"tokenizer_config": config}
    about = compile_folder(write_folder(tmp_path, byte_level_tokenizer(), **configs)).manifest
    assert about.response_template == template
    # Order of keys and types of numbers, too.
    assert json.dumps(about.response_template) == json.dumps(template)


@pytest.mark.parametrize(
    "template",
    [
        *([], [{}], "{}", "", 0, 5, True, False, 1.5),
        *({"a": float("nan")}, {"a": [float("-inf")]}, {"a": "\ud800"}, {"\ud800": 1}),
    ],
)
def test_a_response_template_that_is_no_json_object_is_refused(tmp_path: Path, template: Any) -> None:
    config = {"response_template": template}
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer(), tokenizer_config=config)
    assert re.search(r"tokenizer_config\.json: response_template: ", refused(folder))


@pytest.mark.parametrize(
    ("config", "size"),
    [
        pytest.param({}, NAMED, id="unset"),
        pytest.param({"vocab_size": NAMED + 5}, NAMED + 5, id="padded"),
        pytest.param({"vocab_size": NAMED}, NAMED, id="exact"),
        pytest.param({"vocab_size": 3}, NAMED, id="fewer rows than tokens"),
        pytest.param({"text_config": {"vocab_size": NAMED + 5}}, NAMED + 5, id="the text model's"),
        pytest.param({"vocab_size": None}, NAMED, id="null"),
    ],
)
def test_ids_reach_up_to_the_embedding_rows(tmp_path: Path, config: dict[str, Any], size: int) -> None:
    vocabulary = compile_folder(write_folder(tmp_path, byte_level_tokenizer(), config=config))
    assert (vocabulary.manifest.size, vocabulary.manifest.named) == (size, NAMED)
    assert [vocabulary.pieces[token_id] for token_id in range(NAMED, size)] == [b""] * (size - NAMED)


@pytest.mark.parametrize(
    ("configs", "length"),
    [
        ({}, None),
        ({"config": {"max_position_embeddings": 4096}}, 4096),
        ({"tokenizer_config": {"model_max_length": 2048}}, 2048),
        ({"config": {"max_position_embeddings": 4096}, "tokenizer_config": {"model_max_length": 2048}}, 2048),
        ({"config": {"max_position_embeddings": 1024}, "tokenizer_config": {"model_max_length": 2048}}, 1024),
        ({"tokenizer_config": {"model_max_length": 10**30}}, None),
        ({"tokenizer_config": {"model_max_length": 1e30}}, None),
        ({"config": {"text_config": {"max_position_embeddings": 512}}}, 512),
        ({"config": {"max_position_embeddings": 0}}, None),
        ({"config": {"max_position_embeddings": None}}, None),
        ({"config": {"n_positions": 1024, "max_position_embeddings": 2048}}, 1024),
        ({"config": {"seq_length": 1024}}, 1024),
        ({"config": {"model_max_length": 8192, "max_position_embeddings": 2048}}, 8192),
        ({"params": {"max_seq_len": 4096, "max_position_embeddings": 128_000}}, 4096),
        ({"params": {"max_seq_len": 4096}, "config": {"max_position_embeddings": 2048}}, 2048),
    ],
)
def test_the_length_is_the_least_that_is_given(
    tmp_path: Path, configs: dict[str, Any], length: int | None
) -> None:
    assert (
        compile_folder(write_folder(tmp_path, byte_level_tokenizer(), **configs)).manifest.max_model_len
        == length
    )


YARN: Final = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 65_536),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, 65_536),
        ({"rope_scaling": YARN}, 32_768),
        ({"rope_parameters": YARN}, 32_768),
        ({"rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_type": "default"}}}, 32_768),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 32_768}}, 131_072),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 32_768),
        ({"rope_scaling": {"type": "longrope", "factor": 32.0}}, 32_768),
        ({"rope_scaling": {"rope_type": "default"}}, 32_768),
        ({"rope_scaling": None}, 32_768),
        ({"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "model_type": "gemma3_text"}, 32_768),
        ({"text_config": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}}, 65_536),
        ({"rope_scaling": {"rope_type": "linear", "factor": 1e30}}, None),
        ({"rope_scaling": {"rope_type": "linear", "factor": -3.0}}, 32_768),
    ],
)
def test_the_length_is_stretched_as_the_rotary_embedding_is(
    tmp_path: Path, config: dict[str, Any], length: int | None
) -> None:
    folder = write_folder(
        tmp_path, byte_level_tokenizer(), config={"max_position_embeddings": 32_768, **config}
    )
    assert compile_folder(folder).manifest.max_model_len == length


def test_the_tokenizers_length_is_the_most(tmp_path: Path) -> None:
    configs = {
        "config": {"max_position_embeddings": 32_768, "rope_scaling": YARN},
        "tokenizer_config": {"model_max_length": 10_000},
    }
    about = compile_folder(write_folder(tmp_path, byte_level_tokenizer(), **configs)).manifest
    assert about.max_model_len == 10_000
    assert about.origins["max_model_len"] == "tokenizer_config.json: model_max_length"


def test_the_manifest_says_what_said_its_values(tmp_path: Path) -> None:
    configs: dict[str, Any] = {
        "tokenizer_config": {"eos_token": "<|end|>", "response_template": TEMPLATE},
        "generation_config": {"eos_token_id": [STOP]},
        "config": {"vocab_size": 600, "max_position_embeddings": 2048, "rope_scaling": YARN},
    }
    folder = write_folder(tmp_path, byte_level_tokenizer(), **configs)
    assert compile_folder(folder).manifest.origins == {
        "eos_token_id": "tokenizer_config.json: eos_token",
        "max_model_len": "config.json: max_position_embeddings, stretched",
        "response_template": "tokenizer_config.json: response_template",
        "size": "config.json: vocab_size",
        "special_token_ids": "tokenizer_config.json: the tokens it names",
        "stop_token_ids": "generation_config.json: eos_token_id; tokenizer_config.json: eos_token",
    }


def test_without_configurations_the_tokenizer_has_said_it(tmp_path: Path) -> None:
    origins = compile_folder(write_folder(tmp_path, byte_level_tokenizer())).manifest.origins
    assert origins == {
        "size": "tokenizer.json",
        "special_token_ids": "tokenizer.json: added_tokens flagged special",
    }


def test_the_version_of_the_source_is_said(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, byte_level_tokenizer())
    path, *_ = build(folder, "tiny", tmp_path / "out", revision="0123abc")
    assert load(path).manifest.source_revision == "0123abc"
    path, *_ = build(folder, "tiny", tmp_path / "out")
    assert load(path).manifest.source_revision is None


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "../up",
            "a/../b",
            "a/..",
            "/absolute",
            "a//b",
            "a/",
            "./a",
            ".hidden",
            "-option",
            "a b",
        ),
        *("a\0b", "a\nb", "a\n", "a\\b", "ä", "C:\\x", "a/.b", "~", "$HOME", "a*"),
    ],
)
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    assert "name" in refused(write_folder(tmp_path / "tok", byte_level_tokenizer()), name)


def test_a_name_that_is_too_long_for_a_file_is_refused(tmp_path: Path) -> None:
    refused(write_folder(tmp_path / "tok", byte_level_tokenizer()), "n" * 300)


@pytest.mark.parametrize("name", ["a", "Qwen/Qwen3-0.6B", "a.b_c:d@e+f", "7b", "a/b/c"])
def test_names_as_clients_send_them(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path, word_piece_tokenizer())
    assert compile_folder(folder, name).manifest.name == name


@pytest.mark.parametrize("path", ["missing", "file", "no\0path"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("{}")
    assert "tokenizer.json" in refused(tmp_path / path)


def test_a_folder_without_tokenizer_json_is_refused(tmp_path: Path) -> None:
    assert "tokenizer.json" in refused(write_folder(tmp_path / "tok", None, config={}))


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tok", word_piece_tokenizer())
    (tmp_path / "file").write_text("text")
    with pytest.raises(BuildError, match="file"):
        build(folder, "tiny", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "text"


FILES: Final = ("tokenizer", "tokenizer_config", "generation_config", "config")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut short"),
        pytest.param(b"{} {}", id="two"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"1", id="a number"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"\xff\xfe", id="no UTF-8"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b'{"a":' * 200_000, id="deep objects"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", id="a pointer to a file"),
    ],
)
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, file: str, content: bytes) -> None:
    folder = write_folder(tmp_path / "tok", word_piece_tokenizer())
    (folder / f"{file}.json").write_bytes(content)
    assert f"{file}.json" in refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"model": None}, id="no model"),
        pytest.param({"model": {}}, id="an empty model"),
        pytest.param({"model": {"type": "of another library"}}, id="an unknown model"),
        pytest.param({"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []}, id="no token"),
        pytest.param({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}, id="a negative id"),
        pytest.param({"model": {"type": "BPE", "vocab": {"a": "0"}, "merges": []}}, id="an id in a string"),
        pytest.param({"model": {"type": "BPE", "vocab": [["a", 0]], "merges": []}}, id="a list of tokens"),
        pytest.param(
            {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}, id="a merge of unknown tokens"
        ),
        pytest.param({"decoder": "ByteLevel"}, id="a decoder in a string"),
        pytest.param({"decoder": {"type": "of another library"}}, id="an unknown decoder"),
        pytest.param({"decoder": {"type": "Sequence", "decoders": {}}}, id="a sequence that is none"),
        pytest.param({"decoder": {"type": "Sequence", "decoders": [None]}}, id="a sequence of null"),
        pytest.param({"decoder": []}, id="a list of decoders"),
        pytest.param({"added_tokens": {"0": "<a>"}}, id="added tokens in an object"),
        pytest.param({"added_tokens": "ab"}, id="added tokens in a string"),
        pytest.param({"added_tokens": 5}, id="added tokens in a number"),
        pytest.param({"added_tokens": [None]}, id="an added null"),
        pytest.param({"added_tokens": ["<a>"]}, id="an added string"),
        pytest.param({"added_tokens": [{}]}, id="an added token without an id"),
        pytest.param({"added_tokens": [{"id": 0}]}, id="an added token without content"),
        pytest.param(
            {"added_tokens": [{"id": "0", "content": "<a>"}]}, id="an id of an added token in a string"
        ),
        pytest.param({"added_tokens": [{"id": [], "content": "<a>"}]}, id="an id of an added token in a list"),
        pytest.param({"added_tokens": [{"id": None, "content": "<a>"}]}, id="a null id of an added token"),
        pytest.param(
            {"added_tokens": [{"id": 0, "content": "<a>"}, {"id": "x", "content": "<b>"}]}, id="ids mixed"
        ),
        pytest.param({"added_tokens": [{"id": 0, "content": "\ud800"}]}, id="a lone surrogate"),
    ],
)
def test_a_tokenizer_of_wrong_types_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert str(folder) in refused(folder)


WRONG: Final[dict[tuple[str, str], list[Any]]] = {
    ("tokenizer_config", "added_tokens_decoder"): [
        *([], "a", 5, True, [{}], {"a": {}}, {"a": {"content": "<a>"}}),
        *({"9": None}, {"9": "a"}, {"9": 5}, {"9": []}, {"9": ["content"]}),
        *({"9": {"content": None}}, {"9": {"content": 5}}, {"9": {"content": []}}),
        *({"-1": {"content": "a"}}, {"9" * 5000: {"content": "a"}}),
    ],
    ("tokenizer_config", "additional_special_tokens"): [5, True, 1.5],
    ("tokenizer_config", "extra_special_tokens"): [5, True, 1.5],
    ("generation_config", "eos_token_id"): [
        *("2", {}, {"a": 1}, ["2"], [None, 1], [[1]], 1.5, -1, [-1], [1, "2"], [{}]),
    ],
    ("config", "eos_token_id"): ["2", {"a": 1}, [[]], -1],
    ("config", "rope_scaling"): [5, [], "yarn", {"factor": "x"}, {"a": 5}, {"a": {"b": 5}}, {"type": 5}],
    ("config", "max_position_embeddings"): ["x", [], {}, float("nan"), float("inf"), -1, 10**400],
}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        pytest.param(file, {name: value}, id=f"{name}={str(value)[:40]}")
        for (file, name), values in WRONG.items()
        for value in values
    ],
)
def test_a_configuration_of_wrong_types_is_refused_or_compiled(tmp_path: Path, file: str, content: Any) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer(), **{file: content})
    out = tmp_path / "out"
    try:
        path, *_ = build(folder, "tiny", out)
    except BuildError:
        assert not out.exists() or not list(out.iterdir())
    else:
        about = load(path).manifest
        assert all(type(token_id) is int and token_id >= 0 for token_id in about.stop_token_ids)


LEAST_MEMORY: Final = """
import resource, sys
from pathlib import Path
from layer_compiler import BuildError, build
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    build(Path(sys.argv[1]), "tiny", Path(sys.argv[2]))
except BuildError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory limit is Linux's")
@pytest.mark.parametrize("place", ["vocab_size", "vocab"])
def test_a_size_that_no_model_has_is_refused(tmp_path: Path, place: str) -> None:
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    if place == "vocab_size":
        write_folder(folder, None, config={"vocab_size": 10**12})
    else:
        path = folder / "tokenizer.json"
        definition = json.loads(path.read_text())
        definition["model"]["vocab"]["far"] = 2**32 - 2
        path.write_text(json.dumps(definition))
    command = [sys.executable, "-c", LEAST_MEMORY, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


# --- any JSON -------------------------------------------------------------------------------------------------

SMALL: Final[dict[str, Any]] = {
    "tokenizer": json.loads(word_piece_tokenizer().to_str()),
    "tokenizer_config": {
        "eos_token": "[SEP]",
        "unk_token": {"content": "[UNK]", "special": True},
        "additional_special_tokens": ["!"],
        "added_tokens_decoder": {
            "1": {"content": "[SEP]", "lstrip": False, "special": True},
            "10": {"content": "<extra>", "special": True},
        },
        "model_max_length": 512,
        "response_template": {"version": 1, "fields": {"content": {}}},
    },
    "generation_config": {"eos_token_id": [1, 2]},
    "config": {
        "vocab_size": 16,
        "eos_token_id": 1,
        "max_position_embeddings": 512,
        "text_config": {"vocab_size": 12},
    },
}


def written(folder: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def built_or_refused(files: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = written(Path(name), files)
        try:
            path, *_ = build(folder, "tiny", folder / "out")
        except BuildError:
            assert not list(folder.glob("out/*"))
        else:
            load(path)


def small_numbers(value: Any) -> Any:
    """The document with no number that means gigabytes of ids."""
    if isinstance(value, dict):
        return {name: small_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [small_numbers(item) for item in value]
    return value % 4096 if isinstance(value, int) and value > 4096 else value


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), file=st.sampled_from(FILES))
def test_any_change_of_a_file_is_refused_or_compiled(data: st.DataObject, file: str) -> None:
    built_or_refused({**SMALL, file: small_numbers(data.draw(mutated(SMALL[file])))})


@settings(max_examples=100)
@given(
    config=st.fixed_dictionaries(
        {},
        optional={
            name: json_values
            | st.dictionaries(st.sampled_from(["1", "10", "x", "content"]), json_values, max_size=2)
            for name in (
                "eos_token",
                "added_tokens_decoder",
                "additional_special_tokens",
                "extra_special_tokens",
                "response_template",
            )
        },
    )
)
def test_any_tokenizer_configuration_is_refused_or_compiled(config: dict[str, Any]) -> None:
    built_or_refused({**SMALL, "tokenizer_config": small_numbers(config)})


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_change_of_a_byte_fallback_tokenizer_is_refused_or_compiled(data: st.DataObject) -> None:
    tokenizer = json.loads(sentence_piece_tokenizer(strip=True).to_str())
    place = data.draw(st.sampled_from(["decoder", "added_tokens", "normalizer", "model"]))
    changed = {**tokenizer, place: small_numbers(data.draw(mutated(tokenizer[place])))}
    built_or_refused({"tokenizer": changed})


# --- the proof ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping"])
def test_what_was_proven_is_said(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path, SYNTHETIC[name](), config={"vocab_size": 500})
    _, proof, _ = build(folder, name, tmp_path / "out")
    assert proof is not None
    assert proof.ids == 500
    assert proof.texts > 0
    assert proof.sequences > 0


def test_the_library_itself_needs_no_proof(tmp_path: Path) -> None:
    _, proof, _ = build(write_folder(tmp_path, word_piece_tokenizer()), "tiny", tmp_path / "out")
    assert proof is None


def test_a_tokenizer_that_decodes_otherwise_than_its_rule_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a rule were wrong for it: one piece is changed before the proof."""
    reader = sys.modules["layer_compiler.formats.tokenizer_json"]
    genuine = reader.pieces

    def wrong(*arguments: Any) -> Sequence[bytes]:
        made = list(genuine(*arguments))
        made[300 % len(made)] += b"x"
        return made

    monkeypatch.setattr(reader, "pieces", wrong)
    folder = write_folder(tmp_path / "tok", byte_level_tokenizer())
    assert "library says" in refused(folder)


def test_the_bundled_vocabulary_is_compiled_from_the_pinned_tokenizer(
    bundled: Vocabulary, qwen3: Tokenizer
) -> None:
    rng = random.Random(7)
    for _ in range(500):
        token_id = rng.randrange(bundled.manifest.size)
        assert bundled.pieces[token_id].decode(errors="replace") == qwen3.decode(
            [token_id], skip_special_tokens=False
        )


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping"])
def test_special_tokens_that_are_not_skipped_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As if skipping were broken: the proof covers it too."""

    def broken(path: Path) -> Vocabulary:
        vocabulary = load(path)
        vocabulary.visible_pieces = vocabulary.pieces
        return vocabulary

    folder = write_folder(tmp_path, SYNTHETIC[name]())
    monkeypatch.setattr(sys.modules["layer_compiler.building.vocabulary"], "load", broken)
    with pytest.raises(BuildError, match="decode to"):
        build(folder, "tiny", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_sequences_within_sequences_are_one(tmp_path: Path) -> None:
    definition = json.loads(byte_level_tokenizer().to_str())
    definition["decoder"] = {"type": "Sequence", "decoders": [definition["decoder"]]}
    definition["decoder"] = {"type": "Sequence", "decoders": [definition["decoder"]]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    path, proof, _ = build(tmp_path, "tiny", tmp_path / "out")
    assert proof is not None
    assert load(path).manifest.rule == "byte-level"


def test_a_panic_of_the_library_is_a_refusal(tmp_path: Path) -> None:
    definition = json.loads(sentence_piece_tokenizer(strip=False).to_str())
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 1}
    definition["decoder"]["decoders"].append(strip)
    definition["model"]["vocab"]["\u2581"] = max(definition["model"]["vocab"].values()) + 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    with pytest.raises(BuildError, match="its library fails"):
        build(tmp_path, "tiny", tmp_path / "out")
