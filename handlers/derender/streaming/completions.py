"""Generate chunks → chunks of a text completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from derender.protocol.derender import CompletionRequest
from derender.protocol.limits import check_client_request, check_stop_strings
from derender.protocol.openai import CompletionChunkChoice, TextCompletionChunk

from .decoding import decode_chunk, shown_columns
from .generation import Generation

if TYPE_CHECKING:
    from derender.models.model import ServedModel
    from derender.protocol.generate import ChunkChoice, GenerateChunk

    from .generation import CheckedChunk
    from .state import ChoiceState, GenerationState

__all__ = ["CompletionGeneration", "completion_generation"]


def completion_generation(
    model: ServedModel, name: str, path: str, client: CompletionRequest | None, prompt_tokens: int | None
) -> CompletionGeneration:
    """How the chunks are derendered that answer a completions client's request.

    Args:
        model: The model served.
        name: What the client calls it.
        path: Where the client's request is.
        client: The client's request.
        prompt_tokens: Length of the prompt, if it is to be said.

    Raises:
        BadRequest: It can't be answered.
    """
    client = client or CompletionRequest()
    check_client_request(path, client)
    check_stop_strings(path, client)
    return CompletionGeneration(model, name, client, None, prompt_tokens)


class CompletionGeneration(Generation[CompletionRequest, TextCompletionChunk]):
    """How the chunks of a text completion are derendered."""

    endpoint: ClassVar[str] = "completions"

    def _chunk(self, _: GenerateChunk, fields: dict[str, Any]) -> TextCompletionChunk:
        return TextCompletionChunk(**fields)

    def _choice(
        self, state: GenerationState, checked: CheckedChunk, choice: ChunkChoice
    ) -> tuple[CompletionChunkChoice, ChoiceState]:
        added, after = decode_chunk(self, state.choices.get(choice.index, state.beginning), choice)
        columns, writer = shown_columns(checked, choice, added), self.model.logprobs
        logprobs = writer.completion(columns, after.begun, after.offset)
        after = replace(
            after,
            begun=writer.begun_after(columns, after.begun),
            offset=after.offset + sum(map(len, logprobs["tokens"])),
        )
        if checked.columns is None:
            logprobs = writer.completion(None)
        asked = self.client.return_token_ids
        answer = CompletionChunkChoice(
            index=choice.index,
            text="".join(map(str, added.pieces)),
            logprobs=logprobs if choice.logprobs is not None else None,
            finish_reason=added.finish_reason,
            stop_reason=added.stop_reason,
            prompt_token_ids=checked.chunk.prompt_token_ids if asked else None,
            token_ids=(choice.token_ids or [])[: added.shown] if asked else None,
            routed_experts=choice.routed_experts,
            weight_versions=choice.weight_versions,
        )
        return answer, after
