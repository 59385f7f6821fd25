"""The recorded answers, and the tokenizers and parsers that they were recorded with."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import orjson

if TYPE_CHECKING:
    from tests.support.api_client import Client

CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"

Mode = Literal["peer", "exact"]
MODES: Final[tuple[Mode, ...]] = ("peer", "exact")

RECORDED: Final = {
    # file: (single calls of chat, of completions, streams)
    "deepseek-plain": (78, 130, 48),
    "gemma3-plain": (78, 130, 48),
    "gptoss-harmony": (78, 130, 48),
    "llama2-plain": (78, 130, 48),
    "llama3-plain": (78, 130, 48),
    "qwen3-hermes": (73, 130, 48),
    "qwen3-plain": (78, 130, 48),
}
TOKENIZERS: Final = {
    "deepseek-plain": "deepseek_v3_peer",
    "gemma3-plain": "gemma3",
    "gptoss-harmony": "gptoss",
    "llama2-plain": "llama2",
    "llama3-plain": "llama3_1",
    "qwen3-hermes": "qwen3",
    "qwen3-plain": "qwen3",
}
"""Tokenizer of each file."""
PARSERS: Final = {"gptoss-harmony": ("openai", "openai_gptoss"), "qwen3-hermes": ("hermes", "qwen3")}
"""Tool-call and reasoning parser of each file. They affect chat only."""


class Serve(Protocol):
    """Serves the tokenizer of a file with the peer's settings."""

    def __call__(self, file: str, mode: Mode, name: str | None = None) -> Client:
        """Return a client for a file's calls; `name` chooses another tokenizer."""


@dataclass(frozen=True)
class Case:
    """A recorded single call."""

    file: str
    name: str
    path: str
    request: dict[str, Any]
    status: int
    response: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.file}/{self.name}"


@dataclass(frozen=True)
class Stream:
    """A recorded stream."""

    file: str
    name: str
    path: str
    steps: list[dict[str, Any]]
    """Objects with a `request` without state, a `status`, and the chunk as `response`."""

    @property
    def id(self) -> str:
        return f"{self.file}/{self.name}"

    @property
    def request(self) -> dict[str, Any]:
        """The fields that all requests share."""
        return without(self.steps[0]["request"], "generate_chunk", "stream")

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The generate chunks."""
        return [step["request"]["generate_chunk"] for step in self.steps]


@cache
def records(file: str) -> list[dict[str, Any]]:
    """Read the lines of a file."""
    content = gzip.decompress(Path(__file__).with_name(f"{file}.jsonl.gz").read_bytes())
    return [orjson.loads(line) for line in content.splitlines()]


def single_calls() -> list[Case]:
    """Return all recorded single calls."""
    names = ("name", "path", "request", "status", "response")
    return [
        Case(file, *(record[name] for name in names))
        for file in RECORDED
        for record in records(file)
        if "steps" not in record
    ]


def streams() -> list[Stream]:
    """Return all recorded streams."""
    return [
        Stream(file, record["name"], record["path"], record["steps"])
        for file in RECORDED
        for record in records(file)
        if "steps" in record
    ]


def without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an object without some of its fields."""
    return {name: item for name, item in value.items() if name not in names}


def without_bytes(value: Any) -> Any:
    """Return JSON without the bytes in logprobs."""
    if isinstance(value, dict):
        return {name: without_bytes(item) for name, item in value.items() if name != "bytes"}
    return [without_bytes(item) for item in value] if isinstance(value, list) else value
