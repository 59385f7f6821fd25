"""Ask a vLLM server that has the model's tokenizer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar

import msgspec

from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

__all__ = ["Tokenized", "VllmServer"]

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_SHOWN_CHARACTERS: Final = 200
_NO_ENDPOINT: Final = frozenset({404, 405, 501})
_AnswerT = TypeVar("_AnswerT")


@dataclass(frozen=True)
class Tokenized:
    """A text's token ids, as the server encodes it."""

    token_ids: tuple[int, ...]
    max_model_len: int | None
    """The longest sequence that the server accepts, if it says so."""


class _Tokens(msgspec.Struct):
    tokens: list[Annotated[int, msgspec.Meta(ge=0)]]
    max_model_len: int | None = None


class _Prompt(msgspec.Struct):
    prompt: str


class _Choice(msgspec.Struct):
    index: int
    text: str


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class VllmServer:
    """A server with vLLM's /tokenize and /detokenize, and perhaps its /v1/completions/derender.

    A method returns None if the server lacks its endpoint.
    """

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
            url: The server; paths are appended.
            headers: Headers of each request.
            model: The server's name of the model; the default is its only model, or the preferred one.
            preferred: The name to choose if the server has several models.
            seconds: How long all requests together may take.

        Raises:
            LayerError: The server doesn't answer, or has several models.
        """
        import httpx

        self._url = url.rstrip("/")
        self._deadline = time.monotonic() + seconds
        # A redirect could lead anywhere.
        self._client = httpx.Client(headers=dict(headers or {}), follow_redirects=False)
        self._absent: set[str] = set()
        try:
            self._model = model or self._choose_model(preferred)
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
        """Encode a text without the tokens that begin a sequence."""
        answer = self._post("/tokenize", _Tokens, {"prompt": text, "add_special_tokens": False})
        return None if answer is None else Tokenized(tuple(answer.tokens), answer.max_model_len)

    def detokenize(self, token_ids: Sequence[int]) -> str | None:
        """Decode token ids, special tokens included."""
        answer = self._post("/detokenize", _Prompt, {"tokens": list(token_ids)})
        return None if answer is None else answer.prompt

    def detokenize_unknown(self, token_ids: Sequence[int]) -> str | None:
        """Decode token ids that the server may not have. Return None if it refuses them."""
        answer = self._post("/detokenize", _Prompt, {"tokens": list(token_ids)}, lenient=True)
        return None if answer is None else answer.prompt

    def show_each(self, token_ids: Sequence[int]) -> tuple[str, ...] | None:
        """Decode each token id alone, as a client sees it: special tokens have no text."""
        choices = [
            {"index": index, "token_ids": [token_id], "finish_reason": "length"}
            for index, token_id in enumerate(token_ids)
        ]
        request = {"generate_responses": [{"request_id": "check", "choices": choices}]}
        # Few servers have this endpoint, and some answer it with an error.
        answer = self._post("/v1/completions/derender", _Completion, request, lenient=True)
        if answer is None:
            return None
        return tuple(choice.text for choice in sorted(answer.choices, key=lambda choice: choice.index))

    def get_max_model_len(self) -> int | None:
        """Return the longest sequence that the server accepts, if it says so."""
        lengths = [model.max_model_len for model in self._list_models() or () if model.id == self._model]
        return lengths[0] if lengths else None

    def _list_models(self) -> list[_Model] | None:
        status, content = self._request("GET", "/v1/models")
        return None if status in _NO_ENDPOINT else self._read("/v1/models", status, content, _Models).data

    def _choose_model(self, preferred: str | None) -> str | None:
        models = self._list_models()
        if models is None:
            return None
        names = [model.id for model in models]
        if preferred in names:
            return preferred
        if len(names) != 1:
            shown = ", ".join(names)[:_SHOWN_CHARACTERS] or "no model"
            raise LayerError(f"{self._url} serves {shown}; choose one with --served-model NAME")
        return names[0]

    def _post(
        self, path: str, type_: type[_AnswerT], fields: dict[str, Any], *, lenient: bool = False
    ) -> _AnswerT | None:
        """Return the answer, or None if the server lacks the endpoint or, if lenient, answers with an error."""
        if path in self._absent:
            return None
        body = {"model": self._model, **fields} if self._model else fields
        status, content = self._request("POST", path, body)
        if lenient and status != 200:
            return None
        # An unknown model is a 404 too, but its message says so.
        if status in _NO_ENDPOINT and b"model" not in content.lower():
            self._absent.add(path)
            return None
        return self._read(path, status, content, type_)

    def _request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        import httpx

        content = bytearray()
        try:
            seconds = max(self._deadline - time.monotonic(), 0.001)
            with self._client.stream(method, self._url + path, json=body, timeout=seconds) as answer:
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > _MAX_ANSWER_BYTES:
                        raise LayerError(f"{self._url}{path}: sends more than {_MAX_ANSWER_BYTES >> 20} MB")
                    if time.monotonic() > self._deadline:
                        raise httpx.ReadTimeout("")
        except httpx.TimeoutException as error:
            raise LayerError(f"{self._url}{path}: no answer in time; allow more with --timeout") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # A host name that can't exist fails to encode.
            url = f"{self._url[:_SHOWN_CHARACTERS]}{path}"
            raise LayerError(f"{url}: {str(error)[:_SHOWN_CHARACTERS] or type(error).__name__}") from error
        return answer.status_code, bytes(content)

    def _read(self, path: str, status: int, content: bytes, type_: type[_AnswerT]) -> _AnswerT:
        if status != 200:
            shown = content[:_SHOWN_CHARACTERS].decode(errors="replace")
            raise LayerError(f"{self._url}{path}: status {status}: {shown!r}")
        try:
            return msgspec.json.decode(content, type=type_)
        except (ValueError, RecursionError) as error:
            raise LayerError(f"{self._url}{path}: not an answer of vLLM: {error}") from error
