"""Outputs, complete and in pieces, up to the stop token or stop string that ended them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.decoding.output import OutputDecoder
from derender.decoding.pieces import piece_text
from derender.decoding.stop import StopRule
from tests.support.vocabularies import B

from .texts import bytes_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary

HELLO, COMMA, WORLD, BANG, EOS = int(B.HELLO), int(B.COMMA), int(B.WORLD), int(B.BANG), int(B.EOS)
HELLO_WORLD: Final = [HELLO, COMMA, WORLD, BANG]
"""Decodes to "Hello, world!"."""

Decode = tuple[str, str | None, int | str | None]
"""Text, finish reason and stop reason."""


def decode_whole(
    decoder: OutputDecoder, token_ids: Sequence[int], finish: str = "stop", reason: int | str | None = None
) -> Decode:
    decoded = decoder.decode(decoder.start(None), token_ids, finish, reason)
    return piece_text(decoder.vocabulary, decoded.pieces), decoded.finish_reason, decoded.stop_reason


def decode_split(
    decoder: OutputDecoder, token_ids: Sequence[int], finish: str = "stop", reason: int | str | None = None
) -> Decode:
    """Decode ids one by one, with the finish in a chunk of its own."""
    state, text = decoder.start(None), ""
    for token_id in token_ids:
        decoded, state = decoder.decode_delta(state, [token_id], None, None)
        text += piece_text(decoder.vocabulary, decoded.pieces)
    decoded, _ = decoder.decode_delta(state, [], finish, reason)
    return (
        text + piece_text(decoder.vocabulary, decoded.pieces),
        decoded.finish_reason,
        decoded.stop_reason,
    )


@pytest.mark.parametrize(
    ("token_ids", "finish", "reason", "text", "stop_reason"),
    [
        pytest.param([*HELLO_WORLD, EOS], "stop", None, "Hello, world!", None, id="a special stop token"),
        pytest.param(HELLO_WORLD, "stop", None, "Hello, world!", BANG, id="an ordinary stop token"),
        pytest.param([HELLO, 0xE2], "length", None, "Hello\ufffd", None, id="a cut character"),
        pytest.param([HELLO, COMMA, EOS], "stop", "lo", "Hello,<|end|>", "lo", id="a reported stop string"),
    ],
)
def test_a_raw_output_is_decoded_as_it_was_generated(
    bytes_vocabulary: Vocabulary,
    token_ids: list[int],
    finish: str,
    reason: str | None,
    text: str,
    stop_reason: int | str | None,
) -> None:
    stop = StopRule(token_ids={BANG}, eos_token_id=EOS)
    decoder = OutputDecoder(bytes_vocabulary, stop, skip_special_tokens=False, raw=True)
    assert decode_whole(decoder, token_ids, finish, reason) == (text, finish, stop_reason)
    assert decode_split(decoder, token_ids, finish, reason) == (text, finish, stop_reason)


@pytest.mark.parametrize(
    ("finish", "reason", "stop_reason"),
    [("stop", None, "lo,"), ("stop", BANG, BANG), ("length", None, None)],
)
def test_a_stop_string_in_a_raw_output_is_only_reported(
    bytes_vocabulary: Vocabulary, finish: str, reason: int | None, stop_reason: int | str | None
) -> None:
    decoder = OutputDecoder(bytes_vocabulary, StopRule(["lo,"], reported=False), raw=True)
    expected = ("Hello, world!", finish, stop_reason)
    assert decode_whole(decoder, HELLO_WORLD, finish, reason) == expected
    assert decode_split(decoder, HELLO_WORLD, finish, reason) == expected


def test_a_delta_counts_the_ids_up_to_a_stop_string(bytes_vocabulary: Vocabulary) -> None:
    decoder = OutputDecoder(bytes_vocabulary, StopRule(["world"], token_ids={COMMA}, reported=False))
    first, state = decoder.decode_delta(decoder.start(None), [HELLO, COMMA], None, None)
    assert (first.pieces, first.visible_tokens, first.ended) == (["Hello"], None, False)
    second, state = decoder.decode_delta(state, [WORLD, BANG], None, None)
    assert ("".join(map(str, second.pieces)), second.visible_tokens, second.ended) == (", ", 1, True)
    assert (second.finish_reason, second.stop_reason) == (None, "world")
    after, state = decoder.decode_delta(state, [HELLO], None, None)
    assert (after.pieces, after.visible_tokens, after.stop_reason) == ((), 0, None)
    last, _ = decoder.decode_delta(state, [HELLO], "length", None)
    assert (last.pieces, last.visible_tokens, last.finish_reason, last.stop_reason) == ((), 0, "stop", "world")


def test_a_reported_stop_string_is_cut_from_held_text(bytes_vocabulary: Vocabulary) -> None:
    decoder = OutputDecoder(bytes_vocabulary, StopRule(["Hello, you"], reported=False))
    first, state = decoder.decode_delta(decoder.start(None), [HELLO], None, None)
    assert "".join(map(str, first.pieces)) == ""
    last, _ = decoder.decode_delta(state, [], "stop", "lo")
    assert ("".join(map(str, last.pieces)), last.finish_reason, last.stop_reason) == ("Hel", "stop", "lo")


@pytest.mark.parametrize("strings", [["world"], ["Hello, you"], []])
def test_a_reported_string_that_did_not_stop_the_output_is_not_cut(
    bytes_vocabulary: Vocabulary, strings: list[str]
) -> None:
    reason = "world"
    reporting = OutputDecoder(bytes_vocabulary, StopRule(strings))
    expected = decode_whole(reporting, HELLO_WORLD, "length", reason)
    assert expected == ("Hello, world!", "length", reason)
    decoder = OutputDecoder(bytes_vocabulary, StopRule(strings, reported=False))
    assert decode_whole(decoder, HELLO_WORLD, "length", reason) == expected
    first, state = decoder.decode_delta(decoder.start(None), HELLO_WORLD[:1], None, None)
    last, _ = decoder.decode_delta(state, HELLO_WORLD[1:], "length", reason)
    text = piece_text(bytes_vocabulary, [*first.pieces, *last.pieces])
    assert (text, last.finish_reason, last.stop_reason) == expected


@given(
    token_ids=bytes_ids.filter(bool),
    strings=st.lists(st.sampled_from(["world", "lo", "!", " w", "é", "Hello!", "\ufffd"]), max_size=2),
    min_tokens=st.integers(0, 3),
    include=st.booleans(),
    finish=st.sampled_from(["stop", "length"]),
    raw=st.booleans(),
)
def test_pieces_add_up_to_the_complete_output(
    bytes_vocabulary: Vocabulary,
    token_ids: list[int],
    strings: list[str],
    min_tokens: int,
    include: bool,
    finish: str,
    raw: bool,
) -> None:
    stop = StopRule(strings, {BANG}, EOS, include, min_tokens, reported=False)
    decoder = OutputDecoder(bytes_vocabulary, stop, raw=raw)
    assert decode_split(decoder, token_ids, finish) == decode_whole(decoder, token_ids, finish)
