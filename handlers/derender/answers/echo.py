"""The prompt, echoed before the output of a text completion: its text, and the logprobs of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from derender.decoding.detokenizer import detokenize
from derender.decoding.state import DetokenizerState
from derender.errors import BadRequest
from derender.logprobs.entries import Entries
from derender.protocol.generate import GenerateChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.logprobs.writer import LogprobWriter
    from derender.protocol.base import Json
    from derender.protocol.generate import GenerateResponse, PromptLogprobs
    from derender.vocabulary import Vocabulary

    from .choices import Prompt

__all__ = ["Echo", "drop_output", "echo_text", "read_prompt_entries", "write_echo"]

ChoiceT = TypeVar("ChoiceT", bound=GenerateChoice)


class Echo(NamedTuple):
    """What precedes each output of a prompt."""

    text: str = ""
    logprobs: dict[str, list[Any]] | None = None
    """The lists of the prompt's tokens, if they were asked for."""

    @property
    def offset(self) -> int:
        """Number of characters of the strings of the prompt's tokens."""
        return 0 if self.logprobs is None else sum(map(len, self.logprobs["tokens"]))

    def before(self, logprobs: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Return the lists of the prompt's tokens, continued by those of an output."""
        if self.logprobs is None:
            return logprobs
        return {name: [*values, *logprobs[name]] for name, values in self.logprobs.items()}


def echo_text(path: str, vocabulary: Vocabulary, given: Json, prompt: Prompt, place: int | None) -> str:
    """Return the text of a prompt as vLLM echoes it: as the client sent it, or else its ids decoded.

    Args:
        path: Path of the prompt's ids in the request, for errors.
        vocabulary: The model's vocabulary.
        given: `prompt` of the client's request: a text, a list of ids, or a list of either.
        prompt: The prompt, as far as it is known.
        place: Which of several prompts it is, if known.

    Returns:
        The text with special tokens, without a character that is cut off at the end.

    Raises:
        BadRequest: The client sent no text, and not all ids are known.
    """
    prompts = given if isinstance(given, list) else [given]
    if place is None and len(prompts) == 1:
        place = 0
    if place is not None and place < len(prompts) and isinstance(text := prompts[place], str):
        return text
    token_ids = prompt.token_ids
    if token_ids is None or prompt.tokens not in (None, len(token_ids)):
        raise BadRequest(
            f"{path} must have all ids of the prompt, because the client asked for echo; got "
            f"{len(token_ids or ())}",
            param=path,
        )
    text, _ = detokenize(vocabulary, DetokenizerState(), token_ids, skip_special_tokens=False)
    return text


def read_prompt_entries(
    path: str, response: GenerateResponse, token_ids: Sequence[int], candidates: int | None
) -> Entries:
    """Read the logprobs of a prompt's tokens. Tokens without one, such as the first, have no candidates.

    Args:
        path: Path of the generate response in the request, for errors.
        response: The generate response, checked.
        token_ids: The prompt's ids.
        candidates: Maximum number of candidates to keep at each position; None for all.

    Raises:
        BadRequest: The response has no logprobs of the prompt, or those of another prompt.
    """
    path = f"{path}.prompt_logprobs"
    positions = response.prompt_logprobs
    if positions is None:
        raise BadRequest(
            f"{path} is required, because the client asked for echo with logprobs; send the generate server "
            "prompt_logprobs",
            param=path,
        )
    if len(positions) != len(token_ids):
        raise BadRequest(
            f"{path} has {len(positions)} positions, and the prompt {len(token_ids)} ids", param=path
        )
    tokens: list[int] = []
    logprobs: list[float] = []
    ends: list[int] = []
    for place, (token_id, position) in enumerate(zip(token_ids, positions, strict=True)):
        values = _read_position(f"{path}.{place}", position, token_id)
        tokens += (token_id, *list(values)[:candidates])
        logprobs += (values.get(token_id, 0.0), *list(values.values())[:candidates])
        ends.append(len(tokens))
    return Entries([*tokens], logprobs, ends, [bool(position) for position in positions], only_ids=True)


def _read_position(path: str, position: PromptLogprobs, token_id: int) -> dict[int, float]:
    values: dict[int, Any] = {int(name): value.get("logprob") for name, value in (position or {}).items()}
    if values and token_id not in values:
        raise BadRequest(f"{path} has no logprob of the prompt's token {token_id}", param=path)
    if not all(type(value) in (int, float) for value in values.values()):
        raise BadRequest(f"{path}: each logprob must be a number", param=path)
    return values


def write_echo(text: str, entries: Entries | None, writer: LogprobWriter, *, by_id: bool) -> Echo:
    """Write a prompt and the logprobs of its tokens as those of an output. Tokens without one have null.

    Args:
        text: The prompt.
        entries: The logprobs (`read_prompt_entries`), if they were asked for.
        writer: Writes the logprobs.
        by_id: Whether to name tokens `token_id:N`.
    """
    if entries is None:
        return Echo(text)
    written = writer.write_completion(entries, by_id=by_id)
    known = zip(written["token_logprobs"], entries.with_candidates, strict=True)
    return Echo(text, {**written, "token_logprobs": [logprob if has else None for logprob, has in known]})


def drop_output(choice: ChoiceT) -> ChoiceT:
    """Return a choice without what was generated, for an answer that is the prompt alone.

    A generate server generates at least one token.
    """
    finish_reason = None if choice.finish_reason is None else "length"
    dropped: dict[str, object] = {
        "token_ids": [],
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
    }
    return choice.model_copy(update=dropped)
