"""tokenizer.json: its rules, each token's bytes, added tokens, and malformed files."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from tokenizers import Tokenizer, decoders

from derender.vocabulary import load
from fetch import NAMES
from layer_compiler import build
from layer_compiler.formats import parse_folder
from tests.layers.builds import build_folder, refuse_folder
from tests.support.compiled import compile_small
from tests.support.small_tokenizers import (
    WORDS,
    byte_level_tokenizer,
    id_of,
    sentence_piece_tokenizer,
    word_piece_tokenizer,
    write_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKENIZER: Final = byte_level_tokenizer()
NAMED: Final = TOKENIZER.get_vocab_size()
ADDED: Final = {token: id_of(TOKENIZER, token) for token in ("<|end|>", "<|stop|>", "<|pad|>", "<think>")} | {
    "größe ∞": id_of(TOKENIZER, "größe ∞")
}


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
def test_the_decoder_decides_the_rule(name: str, rule: str, strips: bool) -> None:
    vocabulary, _ = compile_small(name)
    assert vocabulary.manifest.rule == rule
    assert vocabulary.manifest.strip_leading_space is strips
    assert (vocabulary.tokenizer is not None) == (rule == "tokenizers")


def test_nested_sequences_of_decoders_are_one(tmp_path: Path) -> None:
    definition = json.loads(TOKENIZER.to_str())
    for _ in range(2):
        definition["decoder"] = {"type": "Sequence", "decoders": [definition["decoder"]]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    assert parse_folder(tmp_path).tokenizer.rule == "byte-level"


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping"])
def test_pieces_are_the_tokens_bytes(name: str) -> None:
    vocabulary, tokenizer = compile_small(name)
    for word in WORDS:
        token_ids = tokenizer.encode(word, add_special_tokens=False).ids
        pieces = b"".join(vocabulary.pieces[token_id] for token_id in token_ids)
        # SentencePiece writes a space before a text.
        assert pieces.decode() == (" " if name == "stripping" else "") + word


def test_every_byte_has_a_piece() -> None:
    vocabulary, _ = compile_small("byte-level")
    assert {vocabulary.pieces[n] for n in range(256)} == {bytes([byte]) for byte in range(256)}


@pytest.mark.parametrize("name", ["spacing", "stripping"])
def test_byte_tokens_are_known(name: str) -> None:
    vocabulary, _ = compile_small(name)
    assert vocabulary.manifest.byte_token_ids == tuple(range(3, 259))
    assert [vocabulary.pieces[3 + byte] for byte in range(256)] == [bytes([byte]) for byte in range(256)]


# --- added tokens ---------------------------------------------------------------------------------------------


def test_added_tokens_are_known_whether_special_or_not() -> None:
    vocabulary, _ = compile_small("byte-level")
    assert vocabulary.manifest.added_token_ids == tuple(sorted(ADDED.values()))
    assert vocabulary.added_tokens() == ADDED


def test_tokens_that_the_configuration_adds_are_compiled(tmp_path: Path) -> None:
    config = {
        "added_tokens_decoder": {str(NAMED): {"content": "<extra>", "special": True}},
        "eos_token": "<extra>",
    }
    vocabulary = build_folder(write_folder(tmp_path, TOKENIZER, tokenizer_config=config))
    assert vocabulary.pieces[NAMED] == b"<extra>"
    assert vocabulary.manifest.size == vocabulary.manifest.named == NAMED + 1
    assert vocabulary.manifest.eos_token_id == NAMED
    assert vocabulary.special == {NAMED}
    assert vocabulary.added_tokens() == {**ADDED, "<extra>": NAMED}


@pytest.mark.parametrize(
    ("decoder", "added"),
    [
        pytest.param({str(NAMED + 7): {"content": "<a>"}}, {"<a>": NAMED}, id="a gap is closed"),
        pytest.param({str(NAMED): {"content": ""}}, {}, id="an empty token is dropped"),
        pytest.param(
            {str(NAMED): {"content": "<a>"}, str(NAMED + 1): {"content": "<a>"}},
            {"<a>": NAMED},
            id="a repeated token is dropped",
        ),
        pytest.param({str(NAMED): {"content": " world"}}, {" world": NAMED}, id="a word"),
        # "!" is of the byte alphabet, and known.
        pytest.param({"0": {"content": "!"}}, {"!": 0}, id="a token that exists"),
    ],
)
def test_added_tokens_are_those_that_the_library_keeps(
    tmp_path: Path, decoder: dict[str, Any], added: dict[str, int]
) -> None:
    config = {"added_tokens_decoder": decoder}
    texts = build_folder(write_folder(tmp_path, TOKENIZER, tokenizer_config=config)).added_tokens()
    assert {text: n for text, n in texts.items() if n not in ADDED.values()} == added


@pytest.mark.parametrize("name", NAMES)
def test_added_tokens_of_real_tokenizers_have_their_contents(
    tokenizer: Callable[[str], Path], layer: Callable[[str], Path], name: str
) -> None:
    (path,) = layer(name).glob("*.vocab")
    vocabulary = load(path)
    space = "\u2581" if vocabulary.manifest.rule == "byte-fallback" else " "
    assert vocabulary.added_tokens() == read_added_tokens(tokenizer(name), space)


def test_added_tokens_have_their_contents_if_the_library_decodes(
    tokenizer: Callable[[str], Path], tmp_path: Path
) -> None:
    changed = Tokenizer.from_file(str(tokenizer("llama2") / "tokenizer.json"))
    changed.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Replace("\u2581", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    vocabulary = build_folder(write_folder(tmp_path, changed))
    assert vocabulary.manifest.rule == "tokenizers"
    assert vocabulary.added_tokens() == read_added_tokens(tokenizer("llama2"), "\u2581")


def read_added_tokens(folder: Path, space: str) -> dict[str, int]:
    """Read the added tokens of a tokenizer.json, with what its decoder shows as a space."""
    definition = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return {token["content"].replace(space, " "): token["id"] for token in definition["added_tokens"]}


# --- refused --------------------------------------------------------------------------------------------------


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
        pytest.param({"decoder": {"type": "Sequence", "decoders": {}}}, id="a sequence that is an object"),
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
        pytest.param(
            {"added_tokens": [{"id": 0, "content": "<a>"}, {"id": 0, "content": "<b>"}]}, id="an id twice"
        ),
        pytest.param({"added_tokens": [{"id": 0, "content": "\ud800"}]}, id="a lone surrogate"),
    ],
)
def test_a_malformed_tokenizer_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = write_folder(tmp_path / "tok", TOKENIZER)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert str(folder) in refuse_folder(folder)


def test_a_panic_of_the_library_is_a_refusal(tmp_path: Path) -> None:
    definition = json.loads(sentence_piece_tokenizer(strip=False).to_str())
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 1}
    definition["decoder"]["decoders"].append(strip)
    definition["model"]["vocab"]["\u2581"] = max(definition["model"]["vocab"].values()) + 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    assert "the tokenizers library fails" in refuse_folder(tmp_path)


def test_an_empty_vocabulary_is_refused(tmp_path: Path) -> None:
    definition = {**json.loads(word_piece_tokenizer().to_str()), "added_tokens": []}
    definition["model"] = {"type": "BPE", "vocab": {}, "merges": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    assert "0 ids; a vocabulary has from 1 to" in refuse_folder(tmp_path)


LIMITED_MEMORY: Final = """
import resource, sys
from pathlib import Path
from layer_compiler import LayerError, build
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    build(Path(sys.argv[1]), "tiny", Path(sys.argv[2]))
except LayerError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory limit is Linux's")
def test_an_id_that_no_model_has_is_refused_without_memory_for_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tok", TOKENIZER)
    path = folder / "tokenizer.json"
    definition = json.loads(path.read_text())
    definition["model"]["vocab"]["far"] = 2**32 - 2
    path.write_text(json.dumps(definition))
    command = [sys.executable, "-c", LIMITED_MEMORY, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


def test_without_proof_the_library_itself_decodes(tmp_path: Path) -> None:
    assert build(write_folder(tmp_path, word_piece_tokenizer()), "tiny", tmp_path / "out").proof is None
