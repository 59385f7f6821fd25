"""Real tokenizers of every format decode as their own libraries do.

The compiler's proof gives the library what the compiler parsed. Here the library loads the original file.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mistral_common
import pytest

from derender.decoding.detokenizer import detokenize, start
from derender.decoding.state import DetokenizerState
from derender.vocabulary import VocabularyError, load
from layer_compiler.formats import parse_folder
from tests.layers.builds import decode_text
from tests.support.compiled import cached_folder, compiled_layer, tokenizer_folder
from tests.support.paths import CACHE

from .libraries import Library, library
from .texts import TEXTS

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary

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
        """All ids. `plain` removes those that a library does not decode alone."""
        return range(self.vocabulary.manifest.size)

    def plain(self, ids: list[int]) -> list[int]:
        """Remove the ids that libraries show in ways of their own: special, added, single bytes, unnamed."""
        about = self.vocabulary.manifest
        out = {*about.special_token_ids, *about.added_token_ids, *about.byte_token_ids}
        return [token_id for token_id in ids if token_id not in out and self.vocabulary.pieces[token_id]]

    def text(self, ids: list[int]) -> str:
        """Decode a whole output."""
        return decode_text(self.vocabulary, ids)


@cache
def real(name: str) -> Real:
    """Return a tokenizer by its name."""
    if name in NPM:
        folder = tokenizer_folder(name)
        original = folder / "tokenizer.json"
    else:
        original = MISTRAL / name if name in MISTRALS else tokenizer_folder("qwen_ranks") / "qwen.tiktoken"
        make = partial(_collect, original)
        folder = cached_folder(CACHE / "derived" / name, [original, Path(__file__)], make)
    (path,) = compiled_layer(folder, name).glob("*.vocab")
    return Real(load(path), path, library(original))


def _collect(original: Path, folder: Path) -> None:
    """Write a folder with one tokenizer. The ranks of Qwen are beside Qwen3's other files."""
    folder.mkdir()
    shutil.copy(original, folder)
    if original.suffix == ".tiktoken":
        for file in tokenizer_folder("qwen3").iterdir():
            if file.name != "tokenizer.json":
                shutil.copy(file, folder)


@pytest.fixture(params=NAMES)
def each(request: pytest.FixtureRequest) -> Real:
    """Return each tokenizer."""
    return real(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Return random numbers that are always the same for a test."""
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
            # The rest is the prompt's text, without a character that the prompt began.
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
        # It was published as Llama 2's, but is that of Mistral 7B's first version.
        ("llama2", "tokenizer.model.v1"),
        ("qwen3", "qwen_ranks"),
        ("tekken_240718.json", "tekken_240911.json"),
    ],
)
def test_one_vocabulary_has_one_fingerprint(name: str, other: str) -> None:
    one, two = real(name).vocabulary.manifest, real(other).vocabulary.manifest
    assert one.fingerprint == two.fingerprint
    assert one.source_sha256 != two.source_sha256


def test_different_vocabularies_have_different_fingerprints() -> None:
    same = {
        "tokenizer.model.v1",
        "qwen_ranks",
        "tekken_240911.json",
        "mistral_instruct_tokenizer_241114.model.v7m1",
    }
    fingerprints = [real(name).vocabulary.manifest.fingerprint for name in NAMES if name not in same]
    assert len(set(fingerprints)) == len(fingerprints)


def test_ranks_made_of_a_tokenizer_json_are_the_same_vocabulary(tmp_path: Path) -> None:
    """GPT-4o's special tokens leave a gap after the ranks."""
    vocabulary = real("gpt4o").vocabulary
    definition = json.loads((tokenizer_folder("gpt4o") / "tokenizer.json").read_text(encoding="utf-8"))
    added = {str(token["id"]): {"content": token["content"]} for token in definition["added_tokens"]}
    pieces = [vocabulary.pieces[token_id] for token_id in range(vocabulary.manifest.size)]
    lines = (_line(piece, rank) for rank, piece in enumerate(pieces) if str(rank) not in added)
    (tmp_path / "o200k_base.tiktoken").write_bytes(b"".join(lines))
    config: dict[str, Any] = {"added_tokens_decoder": added, "eos_token": "<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    model = parse_folder(tmp_path)
    assert model.tokenizer.format == "tiktoken"
    assert (model.tokenizer.rule, model.pieces) == (vocabulary.manifest.rule, pieces)
    assert model.tokenizer.special_token_ids == vocabulary.manifest.special_token_ids


def _line(piece: bytes, rank: int) -> bytes:
    return base64.b64encode(piece) + b" %d\n" % rank if piece else b""


# --- damage ---------------------------------------------------------------------------------------------------


def test_any_changed_byte_of_a_compiled_file_is_noticed(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "changed.vocab"
    shutil.copy(real("llama2").path, path)
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
