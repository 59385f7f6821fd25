"""Who the GPU side's tokenizer is asked of: a vLLM server, or a file of what one has said."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar

import msgspec

from .comparison import Recorded, Tokenized

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


class _Choice(msgspec.Struct):
    index: int
    text: str


class _Choices(msgspec.Struct):
    choices: list[_Choice]


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Cards(msgspec.Struct):
    data: list[_Card]


class _Line(msgspec.Struct):
    token_ids: list[Annotated[int, msgspec.Meta(ge=0)]]
    text: str


class VllmServer:
    """A server with vLLM's /tokenize and /detokenize, and perhaps its /v1/completions/derender."""

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

    def detokenize_any(self, token_ids: Sequence[int]) -> str | None:
        """The same of ids that it may not have; None where it refuses them."""
        answer = self._tried("/detokenize", _Prompt, {"tokens": list(token_ids)})
        return None if answer is None else answer.prompt

    def visible(self, token_ids: Sequence[int]) -> tuple[str, ...] | None:
        """What a client would see of each id by itself: nothing of special tokens."""
        choices = [
            {"index": index, "token_ids": [token_id], "finish_reason": "length"}
            for index, token_id in enumerate(token_ids)
        ]
        asked = {"generate_responses": [{"request_id": "check", "choices": choices}]}
        answer = self._tried("/v1/completions/derender", _Choices, asked)
        if answer is None:
            return None
        return tuple(choice.text for choice in sorted(answer.choices, key=lambda choice: choice.index))

    def length(self) -> int | None:
        """The longest sequence that it serves, if it says so without a text."""
        lengths = [card.max_model_len for card in self._cards() or () if card.id == self._model]
        return lengths[0] if lengths else None

    def _cards(self) -> list[_Card] | None:
        """The models that it serves, if it tells."""
        status, content = self._ask("GET", "/v1/models")
        return None if status in _NOT_THERE else self._read("/v1/models", status, content, _Cards).data

    def _served(self, preferred: str | None) -> str | None:
        cards = self._cards()
        if cards is None:
            return None
        names = [card.id for card in cards]
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
        status, content = self._ask("POST", path, self._of_model(fields))
        # An unknown model is a 404 too, and says so.
        if status in _NOT_THERE and b"model" not in content.lower():
            self._absent.add(path)
            return None
        return self._read(path, status, content, kind)

    def _tried(self, path: str, kind: type[_AnswerT], fields: dict[str, Any]) -> _AnswerT | None:
        """An answer that not every server has: None also where it is another one."""
        if path in self._absent:
            return None
        status, content = self._ask("POST", path, self._of_model(fields))
        try:
            return self._read(path, status, content, kind)
        except PeerError:
            return None

    def _of_model(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"model": self._model, **fields} if self._model else fields

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
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # Of a host that no name server could have, it is the encoding that fails.
            where = f"{self._url[:_SHOWN]}{path}"
            raise PeerError(f"{where}: {str(error)[:_SHOWN] or type(error).__name__}") from error
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
        PeerError: It can't be read, a line is none, or there is none.
    """
    try:
        with path.open("rb") as file:
            number = found = 0
            while line := file.readline(_MOST_BYTES):
                number += 1
                if line.strip():
                    found += 1
                    yield _recorded(f"{path}:{number}", line)
    except OSError as error:
        raise PeerError(f"{path}: can't be read: {error.strerror}") from error
    if not found:
        raise PeerError(f"{path}: it has no line of token_ids and text")


def _recorded(where: str, line: bytes) -> Recorded:
    try:
        # As Python reads it: a text may hold half a character, escaped.
        fields = msgspec.convert(json.loads(line), _Line)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"{where}: no line of token_ids and text: {error}") from error
    return Recorded(where, tuple(fields.token_ids), fields.text)
