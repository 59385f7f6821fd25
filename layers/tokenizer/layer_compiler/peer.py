"""Who the GPU side's tokenizer is asked of: a vLLM server, or a file of what one has said."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar

import msgspec

from .checking import Recorded, Tokenized

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

__all__ = ["PeerError", "VllmServer", "read_recorded"]

_MOST_BYTES: Final = 64 * 1024 * 1024
"""Of an answer, and of a recorded line."""
_SHOWN: Final = 200
_NOT_THERE: Final = frozenset({404, 405, 501})
_AnswerT = TypeVar("_AnswerT")


class PeerError(ValueError):
    """What the GPU side's tokenizer says can't be had; one line that says why."""


class _Tokens(msgspec.Struct):
    tokens: list[Annotated[int, msgspec.Meta(ge=0)]]
    max_model_len: int | None = None


class _Prompt(msgspec.Struct):
    prompt: str


class _Card(msgspec.Struct):
    id: str


class _Cards(msgspec.Struct):
    data: list[_Card]


class _Line(msgspec.Struct):
    token_ids: list[Annotated[int, msgspec.Meta(ge=0)]]
    text: str


class VllmServer:
    """A server with vLLM's /tokenize and /detokenize."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        model: str | None = None,
        preferred: str | None = None,
        seconds: float = 60,
    ) -> None:
        """Connect to a server.

        Args:
            url: Where it is; paths are added to this.
            headers: What is sent along with each request.
            model: What it calls the model; by default its only one, or the preferred one of several.
            preferred: A name to choose of several.
            seconds: How long everything together may take.

        Raises:
            PeerError: It can't be asked, or it is not known for which model.
        """
        import httpx

        self._url = url.rstrip("/")
        self._until = time.monotonic() + seconds
        # No redirects, which could lead anywhere.
        self._client = httpx.Client(headers=dict(headers or {}), follow_redirects=False)
        self._absent: set[str] = set()
        try:
            self._model = model or self._served(preferred)
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def tokenize(self, text: str) -> Tokenized | None:
        """The ids of a text, without those that only begin a sequence."""
        answer = self._post("/tokenize", _Tokens, {"prompt": text, "add_special_tokens": False})
        return None if answer is None else Tokenized(tuple(answer.tokens), answer.max_model_len)

    def detokenize(self, token_ids: Sequence[int]) -> str | None:
        """The text of ids, special tokens included."""
        answer = self._post("/detokenize", _Prompt, {"tokens": list(token_ids)})
        return None if answer is None else answer.prompt

    def _served(self, preferred: str | None) -> str | None:
        status, content = self._ask("GET", "/v1/models")
        if status in _NOT_THERE:
            return None
        names = [card.id for card in self._read("/v1/models", status, content, _Cards).data]
        if preferred in names:
            return preferred
        if len(names) != 1:
            raise PeerError(
                f"{self._url} serves {', '.join(names)[:_SHOWN] or 'nothing'}; name one: --served-model NAME"
            )
        return names[0]

    def _post(self, path: str, kind: type[_AnswerT], fields: dict[str, Any]) -> _AnswerT | None:
        if path in self._absent:
            return None
        status, content = self._ask("POST", path, {"model": self._model, **fields} if self._model else fields)
        # An unknown model is a 404 too, and says so.
        if status in _NOT_THERE and b"model" not in content.lower():
            self._absent.add(path)
            return None
        return self._read(path, status, content, kind)

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        import httpx

        left = self._until - time.monotonic()
        content = bytearray()
        try:
            with self._client.stream(method, self._url + path, json=body, timeout=max(left, 0.001)) as answer:
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        raise PeerError(f"{self._url}{path}: its answer has more than {_MOST_BYTES:,} bytes")
                    if time.monotonic() > self._until:
                        raise PeerError(f"{self._url}{path}: no answer in time; --timeout gives it longer")
        except httpx.TimeoutException as error:
            raise PeerError(f"{self._url}{path}: no answer in time; --timeout gives it longer") from error
        except httpx.HTTPError as error:
            raise PeerError(f"{self._url}{path}: {str(error) or type(error).__name__}") from error
        return answer.status_code, bytes(content)

    def _read(self, path: str, status: int, content: bytes, kind: type[_AnswerT]) -> _AnswerT:
        if status != 200:
            raise PeerError(
                f"{self._url}{path}: status {status}: {content[:_SHOWN].decode(errors='replace')!r}"
            )
        try:
            return msgspec.json.decode(content, type=kind)
        except (ValueError, RecursionError) as error:
            raise PeerError(f"{self._url}{path}: no answer as vLLM gives it: {error}") from error


def read_recorded(path: Path) -> Iterator[Recorded]:
    """Read JSON lines of `token_ids` and `text`; other fields are passed over.

    Raises:
        PeerError: It can't be read, or a line is none.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_MOST_BYTES):
                number += 1
                if line.strip():
                    yield _recorded(f"{path}:{number}", line)
    except OSError as error:
        raise PeerError(f"{path}: can't be read: {error.strerror}") from error
    if not number:
        raise PeerError(f"{path}: it is empty")


def _recorded(where: str, line: bytes) -> Recorded:
    try:
        # As Python reads it: a text may hold half a character, escaped.
        fields = msgspec.convert(json.loads(line), _Line)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"{where}: no line of token_ids and text: {error}") from error
    return Recorded(where, tuple(fields.token_ids), fields.text)
