"""Parse a chat output into the assistant's message: reasoning, content and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from derender.errors import BadRequest
from derender.parsing import (
    AUTO,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    EarlierCalls,
    Parser,
    Reasoning,
    ReasoningTokens,
    ToolChoice,
    ToolChoiceError,
    call_id,
    finish,
    make_seed,
    offered_tools,
    parse,
    parse_tool_choice,
    read_earlier_calls,
    read_start,
)
from derender.parsing.engine.format import Ids
from derender.protocol.client import ChatRequest
from derender.protocol.limits import check_client_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.decoding.pieces import Piece
    from derender.decoding.token_places import TokenRun
    from derender.parsing import Event, Parsers, ParserState, Start

__all__ = [
    "PLAIN_TEXT",
    "ChatOptions",
    "MessageDelta",
    "MessageParser",
    "MoreArguments",
    "NewCall",
    "read_chat_options",
]


class ChatOptions(NamedTuple):
    """A chat client's request, checked, and the parser of its messages."""

    client: ChatRequest
    messages: MessageParser


class NewCall(Struct, frozen=True):
    """A tool call that begins."""

    index: int
    """The call's number in the message, from 0."""
    id: str
    name: str
    arguments: str
    """The arguments as far as they are known, as JSON text."""


class MoreArguments(Struct, frozen=True):
    """More of the arguments of a call that began earlier."""

    index: int
    arguments: str


class MessageDelta(NamedTuple):
    """What pieces of an output add to the assistant's message."""

    content: str
    reasoning: str = ""
    calls: Sequence[NewCall | MoreArguments] = ()
    complete_calls: int = 0
    """How many calls end. One that the model broke off, or that was cut, never does."""
    reasoning_tokens: int = 0
    """How many tokens of the reasoning are known."""


class MessageParser(Struct, frozen=True):
    """Parses the outputs for one chat request.

    Attributes:
        parser: The parser of the outputs; None if all text is content.
        ids: The form of tool-call ids.
        tool_choice: Which tools the model may or must call.
        include_reasoning: Whether the client wants the reasoning.
        earlier: The tool calls of the conversation. Further calls have other ids.
        counts_reasoning: Whether usage has the number of tokens of the reasoning.
    """

    parser: Parser | None = None
    ids: Ids = Ids.OPENAI
    tool_choice: ToolChoice = AUTO
    include_reasoning: bool = True
    earlier: EarlierCalls = EarlierCalls()
    counts_reasoning: bool = False

    @property
    def hides_tokens(self) -> bool:
        """Whether to leave out logprobs and token ids, which would give hidden reasoning away."""
        return self.parser is not None and not self.include_reasoning

    def start(self, prompt_token_ids: Sequence[int] | None) -> Start | None:
        """Return the state before the outputs of a prompt; None without a parser.

        Args:
            prompt_token_ids: The prompt or a suffix of it, if known. Its end may open the reasoning.
        """
        return None if self.parser is None else read_start(self.parser, prompt_token_ids)

    def seed(self, request_id: str, prompt_token_ids: Sequence[int] | None) -> bytes:
        """Return what the ids of calls are made from; nothing if there may be none.

        Args:
            request_id: The generation's id.
            prompt_token_ids: The prompt or a suffix of it, if known.
        """
        wanted = self.parser is not None and self.parser.calls_wanted
        return make_seed(request_id, prompt_token_ids, self.earlier) if wanted else b""

    def parse(
        self,
        state: ParserState | None,
        pieces: Sequence[Piece],
        runs: Sequence[TokenRun],
        *,
        ended: bool,
        finish_reason: str | None,
        seed: bytes,
        choice: int,
    ) -> tuple[MessageDelta, ParserState | None]:
        """Parse more of an output.

        Args:
            state: The state after what came before.
            pieces: Text, and the ids of markers.
            runs: The tokens that they come from.
            ended: Whether the output ends with these pieces.
            finish_reason: Why it ended. Any reason but `stop` may have cut a call.
            seed: What ids of calls are made from (`seed`).
            choice: The choice's index. Ids of calls are made from it, too.

        Returns:
            What the pieces add to the message, and the state after them.
        """
        if self.parser is None or state is None:
            return MessageDelta("".join(map(str, pieces))), None
        events, state = parse(self.parser, state, pieces, runs if self.counts_reasoning else ())
        if ended:
            events += finish(self.parser, state, cut=(finish_reason or "stop") != "stop")
            state.token_places = []
        reasoning = [event.text for event in events if isinstance(event, Reasoning)]
        starts = {event.index: event for event in events if isinstance(event, CallStart)}
        return MessageDelta(
            content="".join([event.text for event in events if isinstance(event, Content)]),
            reasoning="".join(reasoning) if self.include_reasoning else "",
            calls=self._calls(events, starts, seed, choice),
            complete_calls=sum(isinstance(event, CallEnd) for event in events),
            reasoning_tokens=sum([event.count for event in events if isinstance(event, ReasoningTokens)]),
        ), state

    def _calls(
        self, events: Sequence[Event], starts: Mapping[int, CallStart], seed: bytes, choice: int
    ) -> list[NewCall | MoreArguments]:
        arguments = dict.fromkeys(starts, "")
        for event in events:
            if isinstance(event, CallArguments):
                arguments[event.index] = arguments.get(event.index, "") + event.text
        calls: list[NewCall | MoreArguments] = []
        for index, text in arguments.items():
            if (call := starts.get(index)) is None:
                calls.append(MoreArguments(index, text))
            else:
                made = call_id(self.ids, call, seed=seed, choice=choice, earlier=self.earlier)
                calls.append(NewCall(index, made, call.name, text))
        return calls

    def finish_reason(self, reported: str | None, *, calls: bool) -> str:
        """Return why a choice finished, as the OpenAI API tells it.

        Args:
            reported: The generate server's reason.
            calls: Whether the choice has tool calls.
        """
        reason = reported or "stop"
        return "tool_calls" if reason == "stop" and calls and self.tool_choice.mode != "named" else reason


PLAIN_TEXT: Final = MessageParser()
"""Takes all text as content."""


def read_chat_options(
    path: str, client: ChatRequest | None, parsers: Parsers | None, *, whole_calls: bool
) -> ChatOptions:
    """Check a chat client's request and make the parser of its messages.

    Args:
        path: Path of the client's request, for errors.
        client: The client's request.
        parsers: The model's parsers.
        whole_calls: Whether to emit a call when it is complete instead of its arguments as they come.

    Raises:
        BadRequest: It is missing although there are parsers, or one of its fields is out of bounds.
    """
    if parsers and client is None:
        raise BadRequest(
            f"{path} is required, because a tool-call or reasoning parser is configured",
            param=path,
        )
    client = client or ChatRequest()
    check_client_request(path, client)
    tools = offered_tools(client.tools)
    try:
        tool_choice = parse_tool_choice(client.tool_choice)
    except ToolChoiceError as error:
        raise BadRequest(str(error), param=f"{path}.tool_choice") from None
    if tool_choice.is_forced and (not tools or (tool_choice.name and tool_choice.name not in tools)):
        raise BadRequest("tool_choice requires a tool that is not in tools", param=f"{path}.tool_choice")
    if parsers is None:
        return ChatOptions(client, PLAIN_TEXT)
    parser = parsers.for_request(
        tools,
        tool_choice,
        parallel_tool_calls=client.parallel_tool_calls,
        chat_template_kwargs=client.template_arguments,
        whole_calls=whole_calls,
    )
    return ChatOptions(
        client,
        MessageParser(
            parser,
            parsers.ids,
            tool_choice,
            client.include_reasoning,
            read_earlier_calls(client.messages),
            counts_reasoning=parsers.reasoning is not None,
        ),
    )
