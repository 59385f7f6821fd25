"""Small tokenizers of the `tokenizers` library, one for each kind of decoder, and their folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = [
    "SMALL_TOKENIZERS",
    "WORDS",
    "byte_level_tokenizer",
    "id_of",
    "metaspace_tokenizer",
    "sentence_piece_tokenizer",
    "unruled_byte_tokenizer",
    "word_piece_tokenizer",
    "write_folder",
]


UNKNOWN: Final = "<unk>"


WORDS: Final = ("Hello", " world", " naïve", "東京", " 東", "😀", "the", " the", "ing", "\n\n", "  ")


def _grown(words: Sequence[Sequence[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the tokens and merges that turn the symbols of each word into one token."""
    tokens: dict[str, None] = {}
    merges: dict[tuple[str, str], None] = {}
    for symbols in words:
        grown = symbols[0]
        for symbol in symbols[1:]:
            merges[grown, symbol] = None
            grown += symbol
            tokens[grown] = None
    return list(tokens), list(merges)


def byte_level_tokenizer() -> Tokenizer:
    """Return a byte-level BPE tokenizer of bytes, some words and added tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    encoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens, merges = _grown([encoder.pre_tokenize_str(word)[0][0] for word in WORDS])
    vocab = {token: number for number, token in enumerate([*alphabet, *tokens])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = encoder
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>", "<|stop|>", "<|pad|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("größe ∞", normalized=False)])
    return tokenizer


def sentence_piece_tokenizer(*, strip: bool) -> Tokenizer:
    """Return a SentencePiece-like BPE tokenizer with byte fallback, as Llama 2 (`strip`) or Gemma 3."""
    tokens, merges = _grown([word.replace(" ", "▁") for word in WORDS if word not in ("😀", "\n\n")])
    symbols = sorted(
        {symbol for word in WORDS for symbol in word.replace(" ", "▁") if symbol not in "😀\n"} | {"!"}
    )
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {
        token: number
        for number, token in enumerate(dict.fromkeys(["<unk>", "<s>", "</s>", *byte_tokens, *symbols, *tokens]))
    }
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token=UNKNOWN, byte_fallback=True, fuse_unk=True)
    )
    prepend = [normalizers.Prepend("▁")] if strip else []
    tokenizer.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "▁")])
    stripping = [decoders.Strip(" ", 1, 0)] if strip else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *stripping]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def metaspace_tokenizer() -> Tokenizer:
    """Return a Unigram tokenizer with Metaspace, as T5. Its decoder fits neither rule."""
    words = ["▁Hello", "▁world", "▁the", "▁", "ing", "é", *"Helowrdthing!,.aeiou東京"]
    scores = [(token, -float(number)) for number, token in enumerate(dict.fromkeys(words), 1)]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", 0.0), *scores], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def word_piece_tokenizer(extra: Sequence[str] = ()) -> Tokenizer:
    """Return a WordPiece tokenizer, as BERT. Its decoder joins words and fits neither rule."""
    words = ["[UNK]", "[SEP]", "hello", "world", "play", "##ing", "##s", "!", ",", ".", *extra]
    tokenizer = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(words)}, unk_token=words[0])
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[UNK]", "[SEP]"])
    return tokenizer


def unruled_byte_tokenizer() -> Tokenizer:
    """Return a tokenizer with byte tokens that the library decodes: its decoder is no known one."""
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["<unk>", "</s>", *byte_tokens, "▁Hello", "▁world", "!", "é"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={word: number for number, word in enumerate(words)},
            merges=[],
            unk_token=UNKNOWN,
            byte_fallback=True,
        )
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Replace("▁", " "), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


SMALL_TOKENIZERS: Final[dict[str, Callable[[], Tokenizer]]] = {
    "byte-level": byte_level_tokenizer,
    "spacing": lambda: sentence_piece_tokenizer(strip=False),
    "stripping": lambda: sentence_piece_tokenizer(strip=True),
    "metaspace": metaspace_tokenizer,
    "word-piece": word_piece_tokenizer,
}


def id_of(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id


def write_folder(folder: Path, tokenizer: Tokenizer | None, **configs: Any) -> Path:
    """Write a Hugging Face folder: tokenizer.json, and NAME.json for each keyword. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer is not None:
        tokenizer.save(str(folder / "tokenizer.json"))
    for name, value in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder
