"""What several test files use: small vocabularies, the file format written by hand, events, and mutations."""

from __future__ import annotations

import asyncio
import base64
import copy
import gzip
import json
import struct
import tempfile
import zlib
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from derender.logprobs.writer import LogprobWriter
from derender.models.model import ModelEntry, Models, ServedModel, StateSeal
from derender.protocol.limits import Limits
from derender.vocabulary import Manifest, Rule, Vocabulary, dump, load
from layer_compiler.formats.decoder import pieces as own_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mangum import Mangum

    from derender.logprobs.writer import LogprobBytes

ROOT: Final = Path(__file__).parents[2]
BUNDLED: Final = ROOT / "layers" / "tokenizer" / "default"
REPLACEMENT: Final = "\ufffd"


# --- vocabularies ---------------------------------------------------------------------------------------------


class B(IntEnum):
    """Ids of `BYTE_LEVEL`, after one id for each byte."""

    HELLO = 256
    COMMA = 257
    WORLD = 258
    BANG = 259
    SPACE_AND_2_OF_INFINITY = 260
    E_ACUTE = 261
    LAST_OF_INFINITY_AND_BANG = 262
    FIRST_2_OF_GRIN = 263
    LAST_2_OF_GRIN = 264
    EOS = 265
    OTHER_EOS = 266
    THINK = 267
    PAD = 268
    UNNAMED = 269
    REPLACEMENT = 270
    SIZE = 271


BYTE_LEVEL: Final[list[bytes]] = [
    *(bytes([byte]) for byte in range(256)),
    b"Hello",
    b",",
    b" world",
    b"!",
    b" \xe2\x88",
    b"\xc3\xa9",
    b"\x9e!",
    b"\xf0\x9f",
    b"\x98\x80",
    b"<|end|>",
    b"<|stop|>",
    b"<think>",
    b"<|pad|>",
    b"",
    b"\xef\xbf\xbd",
]


class S(IntEnum):
    """Ids of `SENTENCE_PIECE`; byte N is `S.BYTE + N`."""

    UNK = 0
    BOS = 1
    EOS = 2
    BYTE = 3
    HELLO = 259
    WORLD = 260
    BANG = 261
    SPACE = 262
    E_ACUTE = 263
    GLUED = 264
    THINK = 265
    UNNAMED = 266
    SIZE = 267


SENTENCE_PIECE: Final[list[bytes]] = [
    b"<unk>",
    b"<s>",
    b"</s>",
    *(bytes([byte]) for byte in range(256)),
    b" Hello",
    b" world",
    b"!",
    b" ",
    b"\xc3\xa9",
    b"glued",
    b"<think>",
    b"",
]


def manifest(**changes: Any) -> Manifest:
    """A manifest with the given fields."""
    values: dict[str, Any] = {
        "name": "tiny",
        "rule": "byte-level",
        "size": 3,
        "named": 3,
        "eos_token_id": 2,
        "stop_token_ids": (2,),
        "special_token_ids": (2,),
        "source": "tests",
        "source_sha256": "0" * 64,
    }
    return Manifest(**{**values, **changes})


def loaded(content: bytes) -> Vocabulary:
    """A vocabulary from a file's content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.vocab")
        path.write_bytes(content)
        return load(path)


def vocabulary(pieces: Sequence[bytes], rule: Rule = "byte-level", **changes: Any) -> Vocabulary:
    """A vocabulary of the given pieces."""
    named = sum(1 for piece in pieces if piece)
    return loaded(dump(manifest(rule=rule, size=len(pieces), named=named, **changes), pieces))


def byte_level() -> Vocabulary:
    """`BYTE_LEVEL`, with a primary and another end-of-sequence id."""
    return vocabulary(
        BYTE_LEVEL,
        eos_token_id=int(B.EOS),
        stop_token_ids=(int(B.EOS), int(B.OTHER_EOS)),
        special_token_ids=(int(B.EOS), int(B.OTHER_EOS), int(B.PAD)),
        max_model_len=64,
    )


def sentence_piece(*, strip: bool) -> Vocabulary:
    """`SENTENCE_PIECE`, whose first space is dropped or not."""
    return vocabulary(
        SENTENCE_PIECE,
        "byte-fallback",
        eos_token_id=int(S.EOS),
        stop_token_ids=(int(S.EOS),),
        special_token_ids=(int(S.UNK), int(S.BOS), int(S.EOS)),
        byte_token_ids=tuple(range(S.BYTE, S.BYTE + 256)),
        strip_leading_space=strip,
    )


def library(tokenizer: Tokenizer, **changes: Any) -> Vocabulary:
    """A vocabulary that the `tokenizers` library decodes."""
    size = max(tokenizer.get_vocab().values()) + 1
    values: dict[str, Any] = {"rule": "tokenizers", "size": size, "named": size, **changes}
    definition = tokenizer.to_str()
    tokens = {token_id: token for token, token_id in tokenizer.get_vocab().items()}
    own = own_pieces(json.loads(definition), tokenizer, tokens, size)
    return loaded(dump(manifest(**values), own, definition.encode()))


def served(vocabulary: Vocabulary, *, logprob_bytes: LogprobBytes = "exact", **limits: int) -> ServedModel:
    """A vocabulary behind small limits."""
    values = {"max_model_len": 64, "max_logprobs": 4, "max_sequences": 3, **limits}
    return ServedModel(
        names=("tiny", "small"),
        vocabulary=vocabulary,
        limits=Limits(vocabulary_size=vocabulary.manifest.size, **values),
        logprobs=LogprobWriter(vocabulary, logprob_bytes),
        parsers=None,
        seal=StateSeal(model=0, size=vocabulary.manifest.size),
    )


def alone(model: ServedModel) -> Models:
    """A model that is the only one, and loaded."""
    entry = ModelEntry(model.names, model.vocabulary.manifest.name, model.limits.max_model_len, lambda: model)
    return Models((entry,), default=entry)


def file_content(
    manifest_json: bytes, pieces: Sequence[bytes], *, version: int = 3, count: int | None = None
) -> bytes:
    """A vocabulary file, written as its format is documented."""
    padded = manifest_json + b" " * (-len(manifest_json) % 4)
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    body = b"".join(
        (
            len(padded).to_bytes(4, "little"),
            (len(pieces) if count is None else count).to_bytes(4, "little"),
            padded,
            *(end.to_bytes(4, "little") for end in ends),
            *pieces,
        )
    )
    return b"derender" + struct.pack("<II", version, zlib.crc32(body)) + body


# --- tokenizers -----------------------------------------------------------------------------------------------

UNKNOWN: Final = "<unk>"
WORDS: Final = ("Hello", " world", " naïve", "東京", " 東", "😀", "the", " the", "ing", "\n\n", "  ")


def _grown(words: Sequence[Sequence[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens and merges that make each word one token, from its symbols on."""
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
    """Byte-level BPE: bytes, some words, and added tokens after them."""
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
    """SentencePiece-like BPE with byte fallback, as Llama 2 (stripping) and Gemma 3 (not)."""
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
    """Unigram with Metaspace (T5): its decoder fits neither rule."""
    words = ["▁Hello", "▁world", "▁the", "▁", "ing", "é", *"Helowrdthing!,.aeiou東京"]
    scores = [(token, -float(number)) for number, token in enumerate(dict.fromkeys(words), 1)]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", 0.0), *scores], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def word_piece_tokenizer(extra: Sequence[str] = ()) -> Tokenizer:
    """WordPiece (BERT): its decoder joins words, which fits neither rule."""
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
    """Byte tokens under a decoder of another order than Llama's or Gemma's, so the library decodes it."""
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


def id_of(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that there is."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id


def write_folder(folder: Path, tokenizer: Tokenizer | None, **configs: Any) -> Path:
    """A Hugging Face folder: tokenizer.json, and `<name>.json` for each further value."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer is not None:
        tokenizer.save(str(folder / "tokenizer.json"))
    for name, value in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


# --- an oracle ------------------------------------------------------------------------------------------------


def ends_a_character(data: bytes) -> bool:
    """Whether the last bytes are one whole character, or there are none."""
    for length in range(1, 5):
        try:
            if len(data) >= length and len(data[-length:].decode()) == 1:
                return True
        except UnicodeDecodeError:
            continue
    return not data


def byte_level_text(pieces: Sequence[bytes]) -> str:
    """The text up to the last token that ends a character."""
    for count in range(len(pieces), 0, -1):
        data = b"".join(pieces[:count])
        if ends_a_character(data):
            return data.decode(errors="replace")
    return ""


def byte_fallback_text(pieces: Sequence[tuple[bytes, bool]]) -> str:
    """The text of pieces, each marked as a single byte or not; characters are taken off each run one by one."""
    text, run = "", b""
    for piece, single in pieces:
        if single:
            run += piece
        elif piece:
            whole, rest = _characters(run)
            text, run = text + whole + REPLACEMENT * len(rest) + piece.decode(), b""
    return text + _characters(run)[0]


def _characters(data: bytes) -> tuple[str, bytes]:
    text = ""
    while data:
        for length in range(1, 5):
            try:
                text += data[:length].decode()
            except UnicodeDecodeError:
                continue
            data = data[length:]
            break
        else:
            break
    return text, data


def split(items: Sequence[int], cuts: Sequence[int]) -> list[list[int]]:
    """Items in pieces; each cut is how many the next piece takes, and the last piece takes what is left."""
    pieces, rest = [], list(items)
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest]


# --- requests -------------------------------------------------------------------------------------------------

CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"
EventKind = Literal["http", "rest", "url"]


def event(
    kind: EventKind,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    encoded: bool = True,
) -> dict[str, Any]:
    """What API Gateway's HTTP APIs (`http`) and REST APIs (`rest`) and function URLs (`url`) send.

    Args:
        kind: Whose event.
        method: The HTTP method.
        path: The path.
        body: The body, if any.
        headers: Headers, besides the content type.
        encoded: Write the body in base64; otherwise it has to be text.
    """
    given = {"content-type": "application/json", "host": "x.example.com", **(headers or {})}
    text = None if body is None else base64.b64encode(body).decode() if encoded else body.decode()
    shared: dict[str, Any] = {"headers": given, "body": text, "isBase64Encoded": encoded and body is not None}
    if kind == "rest":
        return {
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": method,
            "multiValueHeaders": {name: [value] for name, value in given.items()},
            "queryStringParameters": None,
            "multiValueQueryStringParameters": None,
            "pathParameters": {"proxy": path.lstrip("/")},
            "stageVariables": None,
            "requestContext": {
                "resourcePath": "/{proxy+}",
                "httpMethod": method,
                "path": f"/prod{path}",
                "stage": "prod",
                "requestId": "0",
                "identity": {"sourceIp": "203.0.113.1"},
            },
            **shared,
        }
    domain = "x.lambda-url.eu-west-1.on.aws" if kind == "url" else "x.execute-api.eu-west-1.amazonaws.com"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "requestContext": {
            "domainName": domain,
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.1",
                "userAgent": "tests",
            },
            "requestId": "0",
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 0,
        },
        **shared,
    }


class Answer:
    """An HTTP response, its body decoded."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.status = int(response["statusCode"])
        single = {name: values[0] for name, values in (response.get("multiValueHeaders") or {}).items()}
        self.headers: dict[str, str] = {**single, **response.get("headers", {})}
        body = response["body"]
        self.body = base64.b64decode(body) if response["isBase64Encoded"] else body.encode()
        if self.headers.get("content-encoding") == "gzip":
            self.body = gzip.decompress(self.body)

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def choice(self) -> Any:
        """The first choice."""
        return self.json["choices"][0]

    @property
    def error(self) -> Any:
        """The error, its envelope checked."""
        envelope = self.json
        assert set(envelope) == {"error"}
        error = envelope["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == self.status
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["type"], str)
        assert error["param"] is None or isinstance(error["param"], str)
        return error


class Client:
    """Calls the Lambda handler."""

    def __init__(self, handler: Mangum, loop: asyncio.AbstractEventLoop) -> None:
        self._handler = handler
        self._loop = loop

    def send(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        kind: EventKind = "http",
        encoded: bool = True,
    ) -> Answer:
        """Send bytes."""
        sent = event(kind, method, path, body, headers, encoded=encoded)
        # The adapter runs on the thread's loop, which another test may have taken away.
        asyncio.set_event_loop(self._loop)
        return Answer(self._handler(sent, None))  # type: ignore[arg-type]

    def post(self, path: str, body: Any) -> Answer:
        """Send JSON."""
        return self.send(path, json.dumps(body).encode())

    def chat(self, body: Any) -> Answer:
        """Derender a chat completion."""
        return self.post(CHAT, body)

    def completions(self, body: Any) -> Answer:
        """Derender a text completion."""
        return self.post(COMPLETIONS, body)


def generated(token_ids: Any, **choice: Any) -> dict[str, Any]:
    """A generate response of one choice."""
    return {
        "request_id": "gen-1",
        "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop", **choice}],
    }


# --- mutations ------------------------------------------------------------------------------------------------

Place = tuple[str | int, ...]

json_values: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(
        [0, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**400, "", "0", "token_id:1", "stop"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, here: Place = ()) -> list[Place]:
    """Every place in a JSON document, the whole of it included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for name, item in inner for place in places(item, (*here, name)))]


def at(value: Any, place: Place) -> Any:
    """What is at a place."""
    for name in place:
        value = value[name]
    return value


def replaced(value: Any, place: Place, new: Any) -> Any:
    """The document with something else at a place."""
    if not place:
        return new
    value = copy.deepcopy(value)
    at(value, place[:-1])[place[-1]] = new
    return value


def deleted(value: Any, place: Place) -> Any:
    """The document without what is at a place."""
    value = copy.deepcopy(value)
    del at(value, place[:-1])[place[-1]]
    return value


@st.composite
def mutated(draw: st.DrawFn, value: Any, most: int = 3) -> Any:
    """A document with a few of its values deleted, replaced by others, or wrapped."""
    for _ in range(draw(st.integers(1, most))):
        place = draw(st.sampled_from(places(value)))
        match draw(st.sampled_from(("replace", "delete", "list", "object"))):
            case "delete" if place:
                value = deleted(value, place)
            case "list":
                value = replaced(value, place, [at(value, place)])
            case "object":
                value = replaced(value, place, {"a": at(value, place)})
            case _:
                value = replaced(value, place, draw(json_values))
    return value
