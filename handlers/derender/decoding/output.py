"""Decode an output, up to the stop token or stop string that ended it.

    decoded, state = decoder.decode(state, token_ids, …)

The state is a value. A complete output is one piece, and any split of the same ids gives the same text. The
state of a stream holds what may turn out to have ended it: the last token, if it is a stop token, and text that
may become a stop string.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from derender.vocabulary import TokenId, Vocabulary

from .detokenizer import detokenize, pending_text, start
from .pieces import Piece, cut_pieces, join_texts, piece_text, read_pieces, split_pieces
from .state import DetokenizerState
from .stop import StopRule
from .stop_strings import Found
from .token_places import TokenRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .stop import StopReason
    from .stop_strings import StopStrings

__all__ = ["Decoded", "OutputDecoder", "OutputState"]

_Count = Annotated[int, Meta(ge=0, lt=2**62)]


class OutputState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of decoding an output."""

    detokenizer: DetokenizerState = DetokenizerState()
    held_token: TokenId | None = None
    """The last id, if a generation that ends with it was stopped by it."""
    held: tuple[Piece, ...] = ()
    """Text that may become a stop string."""
    exempt: _Count = 0
    """Length of the held text's beginning within which no stop string may end (`min_tokens`)."""
    tokens: _Count = 0
    """Number of ids read, up to `min_tokens`."""
    stop_string: str | None = None
    """The stop string that was found."""


class Decoded(NamedTuple):
    """What ids add to an output."""

    pieces: Sequence[Piece]
    """Text and, for a parser, markers."""
    visible_tokens: int | None
    """Number of ids up to the one that completed a stop string; None if all ids are visible."""
    finish_reason: str | None
    stop_reason: StopReason
    ended: bool
    """Whether the output ends here."""
    runs: Sequence[TokenRun] = ()
    """The runs of tokens, from the beginning of the pieces on, if they have markers."""


class OutputDecoder(Struct, frozen=True):
    """Decodes the outputs for one request.

    Attributes:
        vocabulary: The model's vocabulary.
        stop: What ends an output.
        skip_special_tokens: Whether to leave special tokens that are not markers out of the text.
        markers: Ids that a parser reads as markers → their texts in the text that it parses; None if the output
            is only text.
        raw: Whether the output is decoded as it was generated: stop strings stay in it, and so do stop tokens
            that are not special; a character that is cut off is shown as U+FFFD.
    """

    vocabulary: Vocabulary
    stop: StopRule
    skip_special_tokens: bool = True
    markers: Mapping[int, str] | None = None
    raw: bool = False

    def start(self, prompt_token_ids: Sequence[int] | None) -> OutputState:
        """Return the state before an output.

        Args:
            prompt_token_ids: The prompt or a suffix of it, if known. Decoding continues it.
        """
        return OutputState(
            start(self.vocabulary, prompt_token_ids, skip_special_tokens=self.skip_special_tokens)
        )

    def decode(
        self, state: OutputState, token_ids: Sequence[int], finish_reason: str | None, stop_reason: StopReason
    ) -> Decoded:
        """Decode a complete output.

        Args:
            state: The state before it.
            token_ids: Its ids.
            finish_reason: Why the generation ended, as the generate server reports it.
            stop_reason: The stop token or stop string that ended it, as the generate server reports it.
        """
        decoded, _ = self._decode(state, token_ids, finish_reason, stop_reason, final=True, whole=True)
        return decoded

    def decode_delta(
        self, state: OutputState, token_ids: Sequence[int], finish_reason: str | None, stop_reason: StopReason
    ) -> tuple[Decoded, OutputState]:
        """Decode the next ids of a streamed output.

        Args:
            state: The state after the ids before.
            token_ids: The ids.
            finish_reason: Why the generation ended; None if it goes on.
            stop_reason: The stop token or stop string that ended it, as the generate server reports it.

        Returns:
            What the ids add, and the state after them.
        """
        final = finish_reason is not None
        if state.stop_string is not None and not self.raw:
            # Nothing that follows a stop string is shown.
            finish, reason = ("stop", state.stop_string) if final else (None, None)
            return Decoded((), 0, finish, reason, ended=False), state
        return self._decode(state, token_ids, finish_reason, stop_reason, final=final, whole=False)

    def _decode(
        self,
        state: OutputState,
        token_ids: Sequence[int],
        finish_reason: str | None,
        stop_reason: StopReason,
        *,
        final: bool,
        whole: bool,
    ) -> tuple[Decoded, OutputState]:
        strings = self.stop.strings_to_find(finish_reason, stop_reason)
        carried = state.held_token is not None
        if state.held_token is not None:
            token_ids = [state.held_token, *token_ids]
        visible, held_token, reported = token_ids, None, stop_reason
        if final:
            visible, stop_reason = self.stop.drop_stop_token(token_ids, finish_reason, stop_reason)
        elif token_ids and self.stop.is_stop_token(token_ids[-1]):
            visible, held_token = token_ids[:-1], token_ids[-1]
        state = replace(state, held_token=held_token)
        runs: list[TokenRun] = []

        if self.raw:
            pieces, state = self._decode_raw(state, token_ids, visible, strings, runs, final=final, whole=whole)
            if finish_reason == "stop" and reported is None:
                stop_reason = state.stop_string or stop_reason
            return Decoded(pieces, None, finish_reason, stop_reason, ended=final, runs=runs), state

        if state.held and self.markers is not None:
            # Where its tokens begin is known.
            markers = self.markers
            length = sum(len(piece if isinstance(piece, str) else markers[piece]) for piece in state.held)
            runs.append(TokenRun((), length, state.detokenizer, is_whole=True))
        pieces, read, state = self._decode_until_stop(state, visible, strings, runs, whole=whole)
        if state.stop_string is not None:
            finish_reason = "stop" if final else None
            visible_tokens = max(read - carried, 0)
            reason = state.stop_string
            return Decoded(pieces, visible_tokens, finish_reason, reason, ended=True, runs=runs), state
        if final:
            pieces, state = [*pieces, *state.held], replace(state, held=())
        return Decoded(pieces, None, finish_reason, stop_reason, ended=final, runs=runs), state

    def _decode_raw(
        self,
        state: OutputState,
        token_ids: Sequence[int],
        visible: Sequence[int],
        strings: Sequence[StopStrings],
        runs: list[TokenRun],
        *,
        final: bool,
        whole: bool,
    ) -> tuple[list[Piece], OutputState]:
        """Decode all ids but a special token that ended the output. A stop string is only looked for."""
        if final and len(visible) < len(token_ids) and token_ids[-1] not in self.vocabulary.special:
            kept = token_ids
        else:
            kept = visible
        pieces, detokenizer = self._read(state.detokenizer, kept, runs)
        if final:
            pieces.append(pending_text(self.vocabulary, detokenizer))
        if strings and state.stop_string is None:
            _, _, state = self._decode_until_stop(state, visible, strings, [], whole=whole)
        return pieces, replace(state, detokenizer=detokenizer)

    def _decode_until_stop(
        self,
        state: OutputState,
        token_ids: Sequence[int],
        strings: Sequence[StopStrings],
        runs: list[TokenRun],
        *,
        whole: bool,
    ) -> tuple[list[Piece], int, OutputState]:
        """Decode ids up to the end of a stop string.

        Returns:
            The pieces to show, the number of ids up to a stop string, and the state.
        """
        if not strings:
            pieces, detokenizer = self._read(state.detokenizer, token_ids, runs)
            shown = [*state.held, *pieces]
            return shown, len(token_ids), replace(state, detokenizer=detokenizer, held=())
        pieces, end, next_state = self._scan(state, token_ids, strings, runs, hold=not whole)
        read = len(token_ids) if end is None else self._count_until(state, token_ids, end)
        return pieces, read, next_state

    def _count_until(self, state: OutputState, token_ids: Sequence[int], end: int) -> int:
        """Count the ids that complete the first `end` characters of what is held and what the ids add."""
        missing = end - len(piece_text(self.vocabulary, state.held))
        detokenizer, read = state.detokenizer, 0
        while missing > 0:
            pieces, detokenizer = self._read(detokenizer, token_ids[read : read + 1])
            missing -= len(piece_text(self.vocabulary, pieces))
            read += 1
        return read

    def _scan(
        self,
        state: OutputState,
        token_ids: Sequence[int],
        strings: Sequence[StopStrings],
        runs: list[TokenRun],
        *,
        hold: bool,
    ) -> tuple[list[Piece], int | None, OutputState]:
        """Decode ids and look for stop strings in what is held and in what the ids add.

        Returns:
            The pieces to show, where the stop string ends if one was found, and the state. With `hold` it holds
            text that may become a stop string.
        """
        detokenizer, held, exempt = state.detokenizer, list(state.held), state.exempt
        early = token_ids[: max(self.stop.min_tokens - state.tokens, 0)]
        if early:
            pieces, detokenizer = self._read(detokenizer, early, runs)
            held += pieces
            exempt = len(piece_text(self.vocabulary, held))
        pieces, detokenizer = self._read(detokenizer, token_ids[len(early) :], runs)
        held += pieces
        text = piece_text(self.vocabulary, held)
        seen = [each.look(text, exempt) for each in strings]
        found = min((each for each in seen if isinstance(each, Found)), key=attrgetter("end"), default=None)
        if found is not None:
            kept = found.end if self.stop.include else found.end - len(found.string)
            shown, held = cut_pieces(self.vocabulary, held, kept), []
        elif hold:
            begun = max(each for each in seen if not isinstance(each, Found))
            shown, held = split_pieces(self.vocabulary, held, len(text) - begun)
            exempt = max(exempt - len(piece_text(self.vocabulary, shown)), 0)
        else:
            shown, held = held, []
        tokens = state.tokens + len(early)
        end, string = found or (None, None)
        return shown, end, OutputState(detokenizer, state.held_token, join_texts(held), exempt, tokens, string)

    def _read(
        self, state: DetokenizerState, token_ids: Sequence[int], runs: list[TokenRun] | None = None
    ) -> tuple[list[Piece], DetokenizerState]:
        skip = self.skip_special_tokens
        if self.markers is not None:
            return read_pieces(
                self.vocabulary, self.markers, state, token_ids, skip_special_tokens=skip, runs=runs
            )
        text, state = detokenize(self.vocabulary, state, token_ids, skip_special_tokens=skip)
        return [text], state
