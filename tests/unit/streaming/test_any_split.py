"""Any split of ids into chunks adds up to the complete answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.models import served
from tests.support.streams import added_up, at_once, groups, one_by_one, whole
from tests.support.vocabularies import B, S, sentence_piece

from .support import ASKED, CALL, TOOLS, Local, logprobs, parsing

if TYPE_CHECKING:
    from derender.models.model import ServedModel

BYTES: Final = st.sampled_from(
    [*(int(each) for each in B if each is not B.SIZE), 0x20, 0x80, 0xBF, 0xC3, 0xA9, 0xE2, 0xF0, 0xFF]
)
SENTENCES: Final = st.sampled_from(
    [
        *(int(each) for each in S if each not in (S.SIZE, S.BYTE)),
        *(S.BYTE + byte for byte in (0x20, 0x80, 0xC3, 0xA9)),
    ]
)
STOPS: Final = st.lists(st.sampled_from(["world", "lo", "!", " w", "<", "é", "Hello!", "\ufffd"]), max_size=2)
"""Strings that end a text, or nearly do."""


@pytest.fixture(scope="module")
def models(tiny: ServedModel) -> dict[str, tuple[ServedModel, Any]]:
    """Return models of each rule, with ids to try."""
    marked = parsing()
    markers = sorted(set(range(256, marked.vocabulary.manifest.size)))
    text = st.sampled_from([*markers, *CALL.encode(), *b"<think> {}\n"])
    return {
        "bytes": (tiny, BYTES),
        "stripping": (served(sentence_piece(strip=True)), SENTENCES),
        "spacing": (served(sentence_piece(strip=False)), SENTENCES),
        "parsed": (marked, text),
    }


@pytest.mark.parametrize("name", ["bytes", "stripping", "spacing", "parsed"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@settings(max_examples=150)
@given(data=st.data())
def test_any_chunks_add_up_to_the_complete_answer(
    models: dict[str, tuple[ServedModel, Any]], name: str, path: str, data: st.DataObject
) -> None:
    model, one_id = models[name]
    token_ids = data.draw(st.lists(one_id, min_size=1, max_size=24))
    stops = data.draw(STOPS)
    client: dict[str, Any] = {
        "tools": TOOLS,
        # If nothing tells where the output begins, its end does, which a stream can't know.
        "chat_template_kwargs": {"enable_thinking": data.draw(st.booleans())},
        "stop": stops,
        "min_tokens": data.draw(st.integers(0, 3)),
        "include_stop_str_in_output": data.draw(st.booleans()),
        "skip_special_tokens": data.draw(st.booleans()),
        "ignore_eos": data.draw(st.booleans()),
        "return_token_ids": True,
        "return_tokens_as_token_ids": data.draw(st.booleans()),
        "stop_token_ids": data.draw(st.lists(one_id, max_size=1)),
    }
    # Of a text that a stop string ends, the complete answer has all ids and log probabilities.
    given_logprobs = None if stops else logprobs(token_ids, *data.draw(st.lists(one_id, max_size=2)))
    finish = "stop" if stops else data.draw(st.sampled_from(["stop", "length"]))
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": finish, "logprobs": given_logprobs}
    prompt = data.draw(st.lists(one_id, max_size=4))
    response = {"request_id": "gen-1", "choices": [choice]}
    complete = (
        {"generate_response": response, "prompt_token_ids": prompt}
        if path == CHAT
        else {"generate_responses": [response], "prompt_token_ids": [prompt]}
    )
    local = Local(model)
    status, answer = local.post(path, {ASKED[path]: client, **complete})
    assert status == 200, answer
    expected = whole(answer)[0]
    if stops:
        expected.token_ids = []

    request = {ASKED[path]: client, "prompt_token_ids": prompt}
    for sizes in ([1] * len(token_ids), data.draw(st.lists(st.integers(0, 4), max_size=12))):
        chunks = groups([response], sizes)
        for answered in (
            one_by_one(local.post, path, request, chunks),
            at_once(local.post, path, request, chunks, data.draw(st.integers(1, 9))),
        ):
            said = added_up(answered)[0]
            if stops:
                said.token_ids = []
            assert said == expected
