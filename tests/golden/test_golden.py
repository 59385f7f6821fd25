"""Complete generations get the peer's answers: each recorded single call, through the Lambda handler.

Only `created`, the message of an error, and the peer's defects may differ. Each defect is a rule here.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from functools import cache
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from .recorded import (
    CHAT,
    COMPLETIONS,
    MODES,
    RECORDED,
    TOKENIZERS,
    Case,
    Mode,
    Serve,
    single_calls,
    without,
    without_bytes,
)

if TYPE_CHECKING:
    from tests.conftest import TokenizerFolder

REASONING: Final = ("gptoss-harmony", "qwen3-hermes")
"""Files with a reasoning parser. The peer counts its tokens in its own chat completions only."""
BYTE_LEVEL: Final = ("deepseek_v3", "gptoss", "llama3_1", "qwen3")
"""Tokenizers that write bytes as characters. The others write spaces as U+2581 and bytes as <0x41>."""


SPECIAL: Final = re.compile("<\uff5c[^\uff5c]*\uff5c>")
"""A special token of DeepSeek."""


def _responses(case: Case) -> list[dict[str, Any]]:
    """Return the generate responses in the request."""
    return case.request.get("generate_responses") or [case.request["generate_response"]]


def _choices(case: Case) -> list[dict[str, Any]]:
    """Return the choices of all responses in the request."""
    return [choice for response in _responses(case) for choice in response.get("choices", ())]


CASES: Final = tuple(single_calls())
ANSWERED: Final = tuple(case for case in CASES if case.status == 200)


def test_all_recorded_calls_are_tested() -> None:
    tested = Counter((case.file, case.path) for case in CASES)
    chat = {(file, CHAT): counts[0] for file, counts in RECORDED.items()}
    completions = {(file, COMPLETIONS): counts[1] for file, counts in RECORDED.items()}
    assert tested == chat | completions
    assert {path.name for path in Path(__file__).parent.glob("*.gz")} == {f"{f}.jsonl.gz" for f in RECORDED}
    assert len({case.id for case in CASES}) == len(CASES) == 1451


def _unknown_id_is_refused(case: Case, status: int, body: Any) -> None:
    """Check the refusal of an id outside the vocabulary. The peer answers with an empty text."""
    (choice,) = case.request["generate_response"]["choices"]
    (token_id,) = choice["token_ids"]
    assert status == 400
    assert (body["error"]["type"], body["error"]["code"]) == ("BadRequestError", 400)
    if case.status == 200:
        assert str(token_id) in body["error"]["message"]


DEFECTS: Final = {"err-out-of-vocab": _unknown_id_is_refused}
"""Check of each case in which the peer is wrong, by name."""


def test_each_defect_is_recorded_with_each_tokenizer() -> None:
    recorded = {(case.name, case.file) for case in CASES if case.name in DEFECTS}
    assert recorded == {(name, file) for name in DEFECTS for file in RECORDED}


@pytest.mark.parametrize(
    ("case", "mode"),
    list(product(CASES, MODES)),
    ids=[f"{case.id}/{mode}" for case, mode in product(CASES, MODES)],
)
def test_answers_are_the_peers(case: Case, mode: Mode, serve: Serve) -> None:
    status, body = serve(case.file, mode).exchange(case.path, case.request)
    if case.name in DEFECTS:
        DEFECTS[case.name](case, status, body)
        return
    assert status == case.status
    if status != 200:
        expected = case.response["error"]
        assert (body["error"]["type"], body["error"]["code"]) == (expected["type"], expected["code"])
        return
    ours, theirs = without(body, "created"), without(case.response, "created")
    theirs |= {"usage": _counted(case), "choices": _without_reported_eos(case)}
    if case.file in REASONING and case.path == CHAT:
        # Nothing in the recordings opens reasoning.
        theirs["usage"]["completion_tokens_details"] = {"reasoning_tokens": 0}
    if case.file == "qwen3-hermes" and case.path == CHAT:
        theirs = _as_answer(theirs)
    if mode == "exact":
        # The peer returns the bytes of the string, which are empty inside a character.
        ours, theirs = without_bytes(ours), without_bytes(theirs)
    assert ours == theirs
    # Compare JSON as well: in Python 1, 1.0 and True are equal.
    assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def _counted(case: Case) -> dict[str, Any]:
    """Return the recorded usage, with what the generate responses say. The peer does not read it."""
    usage: dict[str, Any] = case.response["usage"]
    given = case.request.get("prompt_tokens")
    lengths = given if isinstance(given, list) else [given] * len(_responses(case))
    prompt = completion = 0
    for length, response in zip(lengths, _responses(case), strict=True):
        counted = response.get("usage") or {}
        said = counted.get("prompt_tokens") or len(response.get("prompt_token_ids") or ())
        prompt += said if length is None else length
        received = sum(len(choice["token_ids"]) for choice in response["choices"])
        completion += max(received, counted.get("completion_tokens") or 0)
    return {
        **usage,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _without_reported_eos(case: Case) -> list[dict[str, Any]]:
    """Return the recorded choices, without a stop reason if the generate response reports an id.

    In the records this is always the primary end-of-sequence id. Servers with a tokenizer never report it.
    """
    return [
        {**choice, "stop_reason": None} if isinstance(sent.get("stop_reason"), int) else choice
        for choice, sent in zip(case.response["choices"], _choices(case), strict=True)
    ]


def _as_answer(response: dict[str, Any]) -> dict[str, Any]:
    """Move to the content what the peer took for reasoning, although nothing opened it."""
    choices = []
    for choice in response["choices"]:
        message = choice["message"]
        assert message["content"] is None
        choices.append({**choice, "message": {**message, "content": message["reasoning"], "reasoning": None}})
    return {**response, "choices": choices}


def _has_chat_logprobs(case: Case) -> bool:
    return case.path == CHAT and any(choice.get("logprobs") for choice in _choices(case))


@pytest.mark.parametrize("case", [case for case in ANSWERED if _has_chat_logprobs(case)], ids=attrgetter("id"))
def test_logprob_bytes_are_the_tokens_own(case: Case, serve: Serve, tokenizer: TokenizerFolder) -> None:
    name = TOKENIZERS[case.file].removesuffix("_peer")
    status, body = serve(case.file, "exact", name).exchange(case.path, case.request)
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
    """Return the bytes of a token, by its spelling in tokenizer.json."""
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
    """Return the byte for each character that the `tokenizers` library writes for one."""
    # Bytes that never occur in UTF-8 are written as themselves.
    alphabet = {chr(byte): byte for byte in (0xC0, 0xC1, *range(0xF5, 0x100))}
    pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    # All characters of one and two bytes, and one for each first byte of a longer sequence.
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
def test_deepseek_text_is_the_peers_decoded(case: Case, serve: Serve, tokenizer: TokenizerFolder) -> None:
    """The peer's texts, mapped back to bytes, are those of the tokenizer's own decoder, up to a cut character.

    The peer loaded DeepSeek's tokenizer with the SentencePiece decoder that its class name suggests, instead of
    the byte-level one in tokenizer.json. So it recorded the characters for the bytes, "Hello,\u0120world!". The
    tests above compare them with a layer that has this decoder.
    """
    status, body = serve(case.file, "exact", "deepseek_v3").exchange(case.path, case.request)
    assert status == 200
    definition = _definition(tokenizer("deepseek_v3"))
    answered = zip(body["choices"], _without_reported_eos(case), _choices(case), strict=True)
    for ours, theirs, sent in answered:
        # Characters outside the alphabet belong to special tokens.
        content = b"".join(
            bytes([_alphabet()[character]]) if character in _alphabet() else character.encode()
            for character in _text(theirs)
        )
        for token_id in reversed(sent["token_ids"]):
            if not _ends_inside(content):
                break
            # A token is held whole.
            content = content.removesuffix(_own_bytes(definition, "deepseek_v3", token_id))
        # The peer's decoder turns U+2581 in the names of special tokens into a space.
        text = SPECIAL.sub(lambda name: name[0].replace("\u2581", " "), _text(ours))
        assert text == content.decode(errors="replace")
        assert ours["finish_reason"] == theirs["finish_reason"]
        assert ours["stop_reason"] == theirs["stop_reason"]
    assert body["usage"] == _counted(case)


def _text(choice: dict[str, Any]) -> str:
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    assert isinstance(text, str)
    return text


def _ends_inside(content: bytes) -> bool:
    """Return whether the last character is cut."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(content)
    return bool(decoder.getstate()[0])
