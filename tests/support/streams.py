"""Streams through the derender endpoints: send chunks one by one or in groups, add up the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Added",
    "Post",
    "added_up",
    "adds_something",
    "at_once",
    "groups",
    "one_by_one",
    "whole",
    "whole_response",
]


class Post(Protocol):
    """Sends JSON and returns the status and the parsed body."""

    def __call__(self, path: str, body: object, /) -> tuple[int, Any]: ...


def one_by_one(
    post: Post, path: str, request: dict[str, Any], chunks: Iterable[object]
) -> list[dict[str, Any]]:
    """Send a request for each generate chunk and return the chunks of the answers."""
    state, answered = None, []
    for chunk in chunks:
        body = {**request, "stream": True, "generate_chunk": chunk, "stream_state": state}
        status, answer = post(path, body)
        assert status == 200, answer
        assert answer.keys() == {"chunk", "stream_state"}
        state = answer["stream_state"]
        answered.append(answer["chunk"])
    return answered


def at_once(
    post: Post, path: str, request: dict[str, Any], chunks: Sequence[object], size: int
) -> list[dict[str, Any]]:
    """Send a request for every `size` generate chunks and return the chunks of the answers."""
    state, answered = None, []
    for begin in range(0, len(chunks), size):
        several = chunks[begin : begin + size]
        body = {**request, "stream": True, "generate_chunks": several, "stream_state": state}
        status, answer = post(path, body)
        assert status == 200, answer
        assert answer.keys() == {"chunks", "stream_state"}
        state = answer["stream_state"]
        assert len(answer["chunks"]) == len(several)
        answered += answer["chunks"]
    return answered


@dataclass
class Added:
    """All that an answer contains for one choice."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Ids, names and arguments."""
    logprobs: dict[str, list[Any]] = field(default_factory=dict)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None


def adds_something(choice: dict[str, Any]) -> bool:
    """Return whether a choice of a chunk has anything for a client."""
    said = {**choice, **choice.get("delta", {})}
    entries = [values for values in (choice["logprobs"] or {}).values() if values]
    fields = ("text", "role", "content", "reasoning", "tool_calls", "finish_reason", "stop_reason", "token_ids")
    return bool(entries) or any(said.get(name) for name in (*fields, "routed_experts", "weight_versions"))


def added_up(chunks: Iterable[dict[str, Any]]) -> dict[int, Added]:
    """Add up the chunks of a stream for each choice, and check the form of the chunks."""
    added: dict[int, Added] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            first = choice["index"] not in added
            said = added.setdefault(choice["index"], Added())
            assert said.finish_reason is None, "a chunk follows the finish reason"
            if "text" in choice:
                said.content += choice["text"]
            else:
                delta = choice["delta"]
                assert delta["role"] == ("assistant" if first else None)
                assert "" not in (delta["content"], delta["reasoning"])
                said.content += delta["content"] or ""
                said.reasoning += delta["reasoning"] or ""
                _add_calls(said.calls, delta)
            _add_rest(said, choice)
    return added


def _add_calls(calls: list[tuple[str, str, str]], delta: dict[str, Any]) -> None:
    assert delta.get("tool_calls") != []
    for call in delta.get("tool_calls", ()):
        if "id" in call:
            assert call.keys() == {"index", "id", "type", "function"}
            assert (call["type"], call["index"]) == ("function", len(calls))
            calls.append((call["id"], call["function"]["name"], call["function"]["arguments"]))
        else:
            assert call.keys() == {"index", "function"}
            assert call["function"].keys() == {"arguments"}
            call_id, name, arguments = calls[call["index"]]
            calls[call["index"]] = (call_id, name, arguments + call["function"]["arguments"])


def _add_rest(said: Added, choice: dict[str, Any]) -> None:
    for name, values in (choice["logprobs"] or {}).items():
        said.logprobs.setdefault(name, []).extend(values)
    said.token_ids += choice["token_ids"] or []
    said.finish_reason = choice["finish_reason"]
    said.stop_reason = choice["stop_reason"] or said.stop_reason


def whole(response: dict[str, Any]) -> dict[int, Added]:
    """Read a complete answer, choice by choice."""
    added: dict[int, Added] = {}
    for choice in response["choices"]:
        said = added[choice["index"]] = Added()
        message = choice.get("message") or {"content": choice.get("text"), "reasoning": None}
        said.content, said.reasoning = message["content"] or "", message["reasoning"] or ""
        said.calls = [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", ())
        ]
        _add_rest(said, choice)
    return added


def whole_response(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the generate response that generate chunks add up to."""
    response: dict[str, Any] = {"choices": []}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        response |= {name: value for name, value in chunk.items() if name not in ("choices", "usage")}
        for choice in chunk["choices"]:
            total = choices.setdefault(choice["index"], {"index": choice["index"], "token_ids": []})
            total["token_ids"] += choice.get("token_ids") or []
            if choice.get("logprobs") is not None:
                entries = total.setdefault("logprobs", {"content": []})["content"]
                entries += choice["logprobs"]["content"] or []
            rest = ("finish_reason", "stop_reason")
            total |= {name: choice[name] for name in rest if choice.get(name) is not None}
    return {**response, "choices": list(choices.values())}


def groups(chunks: Sequence[dict[str, Any]], sizes: Iterable[int]) -> list[dict[str, Any]]:
    """Regroup a stream of one choice into chunks of the given sizes and a last chunk of the rest.

    The last chunk has the finish reason.
    """
    response = whole_response(chunks)
    (choice,) = response.pop("choices")
    token_ids, logprobs = choice["token_ids"], choice.get("logprobs")
    grouped, begin = [], 0
    for size in (*sizes, len(token_ids)):
        end = begin + size
        part = {"index": choice["index"], "token_ids": token_ids[begin:end]}
        if logprobs is not None:
            part["logprobs"] = {"content": logprobs["content"][begin:end]}
        grouped.append({**response, "choices": [part]})
        begin = end
    rest = {name: choice[name] for name in ("finish_reason", "stop_reason") if name in choice}
    grouped[-1]["choices"][0] |= rest
    return grouped
