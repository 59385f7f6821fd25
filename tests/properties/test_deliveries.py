"""Whatever a model writes, whole answers and streams agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from derender.parsing.arguments.notation import JSON, START, read_notation
from tests.support.deliveries import Chat

from .accounts import is_object
from .broken import altered, mixed
from .encoding import split
from .examples import tried
from .outputs import FAMILIES
from .sources import PARSERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.deliveries import Delivered

    from .broken import Broken
    from .outputs import Family


_SIZES: Final = st.lists(st.integers(0, 12), max_size=20)


@pytest.mark.parametrize("tools", PARSERS)
@tried(6)
@given(data=st.data())
def test_mixed_markup_is_delivered_alike(tools: str | None, data: st.DataObject) -> None:
    check(data.draw(mixed(tools)), data.draw(_SIZES))


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
@tried(4)
@given(data=st.data())
def test_altered_messages_are_delivered_alike(family: Family, data: st.DataObject) -> None:
    check(data.draw(altered(family)), data.draw(_SIZES))


def check(output: Broken, sizes: Sequence[int]) -> None:
    # A generation has at least one token.
    assume(output.ids)
    chat = Chat(output.source.vocabulary, output.source.parsers, output.client, output.prompt)
    finish_reason = "length" if output.cut else "stop"
    whole = chat.whole(output.ids, finish_reason)
    assert len({name for name, _, _ in whole.message.calls}) == len(whole.message.calls)
    chunks = split(output.ids, sizes)
    assert chat.streamed("complete", chunks, finish_reason) == whole
    check_fragments(chat.streamed("fragments", chunks, finish_reason), whole)


def check_fragments(fragments: Delivered, whole: Delivered) -> None:
    """Check that fragments add up to the whole answer, but for what they had sent of calls that broke."""
    sent, message = fragments.message, whole.message
    assert all(is_object(arguments) for _, _, arguments in message.calls)
    if all(is_object(arguments) for _, _, arguments in sent.calls):
        assert fragments == whole
        return
    complete = [call[1:] for call in sent.calls if is_object(call[2])]
    assert complete == [call[1:] for call in message.calls]
    for _, _, arguments in sent.calls:
        phase = read_notation(JSON, START, arguments, 0, markers={}).state.phase
        assert phase != "bad", arguments
        assert (phase == "done") == is_object(arguments), arguments
    # The text of a call that is none may be reasoning.
    details = "completion_tokens_details"
    assert fragments.usage | {details: None} == whole.usage | {details: None}
    if reasoned := whole.usage[details]:
        assert fragments.usage[details]["reasoning_tokens"] <= reasoned["reasoning_tokens"]
    assert sent.finish_reason == message.finish_reason
    assert is_rest(sent.content, message.content)
    assert is_rest(sent.reasoning, message.reasoning)


def is_rest(rest: str, text: str) -> bool:
    """Return whether a text with parts of it left out is the rest."""
    characters = iter(text)
    return all(character in characters for character in rest)
