"""Complete generations answer as the peer did: each recorded single call, through the Lambda handler.

The only differences allowed are `created`, the words of an error, and the peer's own defects, each a rule here.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Deploy, Endpoint, TokenizerFolder

CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"

Mode = Literal["peer", "exact"]
MODES: Final[tuple[Mode, ...]] = ("peer", "exact")

RECORDED: Final = {
    # file: (single calls of chat, of completions, streams)
    "deepseek-plain": (78, 130, 48),
    "gemma3-plain": (78, 130, 48),
    "gptoss-harmony": (78, 130, 48),
    "llama2-plain": (78, 130, 48),
    "llama3-plain": (78, 130, 48),
    "qwen3-hermes": (73, 130, 48),
    "qwen3-plain": (78, 130, 48),
}
TESTED: Final = {
    # file: (tokenizer, paths)
    "deepseek-plain": ("deepseek_v3_peer", (CHAT, COMPLETIONS)),
    "gemma3-plain": ("gemma3", (CHAT, COMPLETIONS)),
    "gptoss-harmony": ("gptoss", (CHAT, COMPLETIONS)),
    "llama2-plain": ("llama2", (CHAT, COMPLETIONS)),
    "llama3-plain": ("llama3_1", (CHAT, COMPLETIONS)),
    "qwen3-hermes": ("qwen3", (CHAT, COMPLETIONS)),
    "qwen3-plain": ("qwen3", (CHAT, COMPLETIONS)),
}
PARSERS: Final = {"gptoss-harmony": ("openai", "openai_gptoss"), "qwen3-hermes": ("hermes", "qwen3")}
"""file: parsers that the peer ran with. They are of chat only: completions are plain text with them too."""
BYTE_LEVEL: Final = ("deepseek_v3", "gptoss", "llama3_1", "qwen3")
"""Tokenizers that write bytes as characters; the others write spaces as U+2581 and bytes as <0x41>."""


SPECIAL: Final = re.compile("<\uff5c[^\uff5c]*\uff5c>")
"""A special token of DeepSeek."""


@dataclass(frozen=True)
class Case:
    """A recorded single call."""

    file: str
    name: str
    path: str
    request: dict[str, Any]
    status: int
    response: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.file}/{self.name}"


def _records(file: str) -> list[dict[str, Any]]:
    with gzip.open(Path(__file__).with_name(f"{file}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _single_calls() -> Iterator[Case]:
    for file in TESTED:
        for record in _records(file):
            if "steps" not in record:
                values = (record[name] for name in ("name", "path", "request", "status", "response"))
                yield Case(file, *values)


def _choices(case: Case) -> list[dict[str, Any]]:
    """The choices sent, of all responses."""
    responses = case.request.get("generate_responses") or [case.request["generate_response"]]
    return [choice for response in responses for choice in response.get("choices", ())]


SINGLE: Final = tuple(_single_calls())
CASES: Final = tuple(case for case in SINGLE if case.path in TESTED[case.file][1])
ANSWERED: Final = tuple(case for case in SINGLE if case.status == 200)


def test_every_recorded_call_is_tested() -> None:
    recorded = {}
    for file in RECORDED:
        kinds = Counter("stream" if "steps" in record else record["path"] for record in _records(file))
        recorded[file] = (kinds.pop(CHAT), kinds.pop(COMPLETIONS), kinds.pop("stream"))
        assert not kinds
    assert recorded == RECORDED
    assert {path.name for path in Path(__file__).parent.glob("*.gz")} == {f"{f}.jsonl.gz" for f in RECORDED}
    tested = Counter((case.file, case.path) for case in CASES)
    chat = {(file, CHAT): RECORDED[file][0] for file, (_, paths) in TESTED.items() if CHAT in paths}
    completions = {(file, COMPLETIONS): RECORDED[file][1] for file in TESTED}
    assert tested == chat | completions
    assert len({case.id for case in CASES}) == len(CASES) == 1451


class Serve(Protocol):
    """An endpoint set up as the peer was."""

    def __call__(self, file: str, mode: Mode, name: str | None = None) -> Endpoint:
        """The endpoint for a file's calls; with another tokenizer where one is named."""


@pytest.fixture
def serve(deploy: Deploy) -> Serve:
    """File, mode of logprob bytes → an endpoint set up as the peer was."""

    def endpoint(file: str, mode: Mode, name: str | None = None) -> Endpoint:
        tools, reasoning = PARSERS.get(file, ("none", "none"))
        return deploy(
            name or TESTED[file][0],
            {
                "DERENDER_SERVED_MODEL_NAME": "m",
                "DERENDER_MAX_MODEL_LEN": "40960",
                "DERENDER_LOGPROB_BYTES": mode,
                "DERENDER_TOOL_CALL_PARSER": tools,
                "DERENDER_REASONING_PARSER": reasoning,
            },
        )

    return endpoint


def _unknown_id_is_refused(case: Case, status: int, body: Any) -> None:
    """An id outside the vocabulary means a wrong tokenizer. The peer answers with an empty text."""
    (choice,) = case.request["generate_response"]["choices"]
    (token_id,) = choice["token_ids"]
    assert status == 400
    assert (body["error"]["type"], body["error"]["code"]) == ("BadRequestError", 400)
    if case.status == 200:
        assert str(token_id) in body["error"]["message"]


DEFECTS: Final = {"err-out-of-vocab": _unknown_id_is_refused}
"""Name of a case → what is right where the peer is wrong."""


def test_each_defect_is_recorded_with_each_tokenizer() -> None:
    recorded = {(case.name, case.file) for case in CASES if case.name in DEFECTS}
    assert recorded == {(name, file) for name in DEFECTS for file in TESTED if CHAT in TESTED[file][1]}


@pytest.mark.parametrize(
    ("case", "mode"),
    list(product(CASES, MODES)),
    ids=[f"{case.id}/{mode}" for case, mode in product(CASES, MODES)],
)
def test_answers_as_the_peer(case: Case, mode: Mode, serve: Serve) -> None:
    status, body = serve(case.file, mode).post(case.path, case.request)
    if case.name in DEFECTS:
        DEFECTS[case.name](case, status, body)
        return
    assert status == case.status
    if status != 200:
        expected = case.response["error"]
        assert (body["error"]["type"], body["error"]["code"]) == (expected["type"], expected["code"])
        return
    ours, theirs = _without(body, "created"), _without(case.response, "created")
    if case.file == "qwen3-hermes" and case.path == CHAT:
        theirs = _as_answer(theirs)
    if mode == "exact":
        # The peer gives the bytes of the string, [] for a part of a character.
        ours, theirs = _without_bytes(ours), _without_bytes(theirs)
    assert ours == theirs
    # As JSON too: Python holds 1, 1.0 and true to be equal.
    assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def _as_answer(response: dict[str, Any]) -> dict[str, Any]:
    """What the peer took for reasoning, though neither the prompt nor the output opened any."""
    choices = []
    for choice in response["choices"]:
        message = choice["message"]
        assert message["content"] is None
        choices.append({**choice, "message": {**message, "content": message["reasoning"], "reasoning": None}})
    return {**response, "choices": choices}


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in names}


def _without_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_bytes(item) for name, item in value.items() if name != "bytes"}
    return [_without_bytes(item) for item in value] if isinstance(value, list) else value


def _has_chat_logprobs(case: Case) -> bool:
    return case.path == CHAT and any(choice.get("logprobs") for choice in _choices(case))


@pytest.mark.parametrize("case", [case for case in ANSWERED if _has_chat_logprobs(case)], ids=attrgetter("id"))
def test_logprob_bytes_are_the_tokens_own(case: Case, serve: Serve, tokenizer: TokenizerFolder) -> None:
    name = TESTED[case.file][0].removesuffix("_peer")
    status, body = serve(case.file, "exact", name).post(case.path, case.request)
    assert status == 200
    definition = _definition(tokenizer(name))
    for choice, sent in zip(body["choices"], _choices(case), strict=True):
        entries = choice["logprobs"]["content"]
        for entry, given in zip(entries, sent["logprobs"]["content"], strict=True):
            kept = given["top_logprobs"][: len(entry["top_logprobs"])]
            answered = [entry["bytes"], *(candidate["bytes"] for candidate in entry["top_logprobs"])]
            assert answered == [
                list(_own_bytes(definition, name, named["token_id"])) for named in (given, *kept)
            ]


@cache
def _definition(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _own_bytes(definition: Tokenizer, name: str, token_id: int) -> bytes:
    """The bytes a token stands for, by its spelling in tokenizer.json."""
    token = definition.id_to_token(token_id)
    if token is None:
        return b""
    if name in BYTE_LEVEL:
        in_alphabet = all(character in _alphabet() for character in token)
        return bytes(_alphabet()[character] for character in token) if in_alphabet else token.encode()
    if token.startswith("<0x") and len(token) == 6:
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


@cache
def _alphabet() -> dict[str, int]:
    """The character that the `tokenizers` library writes for each byte → the byte."""
    # Bytes that no UTF-8 holds are written as themselves.
    alphabet = {chr(byte): byte for byte in (0xC0, 0xC1, *range(0xF5, 0x100))}
    pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    # One character for each first byte of a longer sequence, all shorter ones.
    for code in (
        *range(0x800),
        *range(0x800, 0xD800, 0x800),
        0xE000,
        0xF000,
        *range(0x10000, 0x110000, 0x10000),
    ):
        ((written, _),) = pre_tokenizer.pre_tokenize_str(chr(code))
        alphabet.update(zip(written, chr(code).encode(), strict=True))
    assert alphabet.keys() == set(ByteLevel.alphabet())
    assert sorted(alphabet.values()) == list(range(0x100))
    return alphabet


@pytest.mark.parametrize(
    "case",
    [case for case in ANSWERED if case.file == "deepseek-plain" and case.name not in DEFECTS],
    ids=attrgetter("id"),
)
def test_deepseek_text_is_what_the_peer_left_encoded(
    case: Case, serve: Serve, tokenizer: TokenizerFolder
) -> None:
    """The peer loaded DeepSeek's tokenizer with a SentencePiece decoder, by the name of its class, in place of
    the byte-level one that its tokenizer.json has. So what it recorded is the bytes' characters,
    "Hello,\u0120world!", and above it is compared to a layer with that decoder. Mapped back to bytes, its texts
    are those of the tokenizer's own decoder, up to a character that is cut.
    """
    status, body = serve(case.file, "exact", "deepseek_v3").post(case.path, case.request)
    assert status == 200
    definition = _definition(tokenizer("deepseek_v3"))
    answered = zip(body["choices"], case.response["choices"], _choices(case), strict=True)
    for ours, theirs, sent in answered:
        # What is in no alphabet is a special token's own characters.
        content = b"".join(
            bytes([_alphabet()[character]]) if character in _alphabet() else character.encode()
            for character in _text(theirs)
        )
        for token_id in reversed(sent["token_ids"]):
            if not _ends_inside(content):
                break
            # A token is withheld whole.
            content = content.removesuffix(_own_bytes(definition, "deepseek_v3", token_id))
        # The peer's decoder takes U+2581 in a special token's name for a space.
        text = SPECIAL.sub(lambda name: name[0].replace("\u2581", " "), _text(ours))
        assert text == content.decode(errors="replace")
        assert ours["finish_reason"] == theirs["finish_reason"]
        assert ours["stop_reason"] == theirs["stop_reason"]
    assert body["usage"] == case.response["usage"]


def _text(choice: dict[str, Any]) -> str:
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    assert isinstance(text, str)
    return text


def _ends_inside(content: bytes) -> bool:
    """Whether the last character is cut."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(content)
    return bool(decoder.getstate()[0])
