"""The chunks of a streamed text completion."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from derender.answers.echo import drop_output, echo_text
from derender.errors import BadRequest
from derender.protocol.client import CompletionRequest
from derender.protocol.limits import check_client_request, check_stop_strings
from derender.protocol.openai.completions import CompletionChunkChoice, TextCompletionChunk

from .generation import Generation

if TYPE_CHECKING:
    from derender.answers.choices import Prompt
    from derender.models.model import ServedModel
    from derender.protocol.generate import ChunkChoice, GenerateChunk

    from .checks import CheckedChunk
    from .generation import ChoiceDelta
    from .state import ChoiceState, GenerationState

__all__ = ["CompletionGeneration", "completion_generation"]


def completion_generation(
    model: ServedModel, name: str, path: str, client: CompletionRequest | None, prompt_tokens: int | None
) -> CompletionGeneration:
    """Return what derenders a generation for a completions client.

    Args:
        model: The model.
        name: What the client calls the model.
        path: Path of the client's request, for errors.
        client: The client's request.
        prompt_tokens: Length of the prompt, for `usage`.

    Raises:
        BadRequest: The client's request is out of bounds.
    """
    client = client or CompletionRequest()
    if client.echo and client.logprobs is not None:
        raise BadRequest(
            "echo with logprobs can't be streamed, because streams of generate servers have no logprobs of the "
            "prompt; set stream to false",
            param=f"{path}.echo",
        )
    check_client_request(path, client)
    check_stop_strings(path, client)
    return CompletionGeneration(
        model=model, name=name, client=client, n=client.choice_count, prompt_tokens=prompt_tokens
    )


class CompletionGeneration(Generation[CompletionRequest, TextCompletionChunk]):
    """Derenders the chunks of a text completion."""

    endpoint: ClassVar[str] = "completions"

    def for_prompt(self, prompt: Prompt, place: int | None = None) -> CompletionGeneration:
        """Return what derenders the generation of a prompt, in which a choice begins."""
        generation = super().for_prompt(prompt, place)
        if not self.client.echo:
            return generation
        text = echo_text("prompt_token_ids", self.model.vocabulary, self.client.prompt, prompt, place)
        return dataclasses.replace(generation, echoed=text)

    def _decode_choice(
        self, state: GenerationState, checked: CheckedChunk, choice: ChunkChoice
    ) -> tuple[ChoiceDelta, ChoiceState]:
        if self.client.only_echoes:
            choice, checked = drop_output(choice), checked._replace(entries=None)
        return super()._decode_choice(state, checked, choice)

    def _write_choice(
        self, delta: ChoiceDelta, next_state: ChoiceState
    ) -> tuple[CompletionChunkChoice, ChoiceState]:
        choice, writer = delta.generated, self.model.logprobs
        logprobs = writer.write_completion(
            delta.entries, delta.context, next_state.offset, by_id=self.client.return_tokens_as_token_ids
        )
        next_state = replace(next_state, offset=next_state.offset + sum(map(len, logprobs["tokens"])))
        if delta.logprobs is None:
            logprobs = writer.write_completion(None)
        returns_ids = self.client.return_token_ids
        written = CompletionChunkChoice(
            index=choice.index,
            text=self.echoed + delta.message.content if delta.is_first else delta.message.content,
            logprobs=logprobs if choice.logprobs is not None else None,
            finish_reason=delta.decoded.finish_reason,
            stop_reason=delta.decoded.stop_reason,
            prompt_token_ids=delta.prompt_token_ids if returns_ids else None,
            token_ids=delta.token_ids if returns_ids else None,
            routed_experts=choice.routed_experts,
            weight_versions=choice.weight_versions,
        )
        return written, next_state

    def _write_chunk(self, _: GenerateChunk, fields: dict[str, Any]) -> TextCompletionChunk:
        return TextCompletionChunk(**fields)
