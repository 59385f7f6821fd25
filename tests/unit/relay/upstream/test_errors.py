"""Which errors of upstreams clients see, and which words of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.relay.upstream.errors import MAX_MESSAGE, NEEDS_TOKENIZER, refusal_of_body
from tests.support.generate_protocol import generate_request, response_of
from tests.support.relay_client import CHAT, RELAY
from tests.support.relay_faults import BAD_GATEWAY, read_error
from tests.support.relay_requests import relay_chat
from tests.support.upstream_server import Reply, answer
from tests.support.vllm_answers import NO_OUTPUT_MODE, NO_STOP_STRINGS, NO_STRUCTURED_OUTPUTS

if TYPE_CHECKING:
    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport

pytestmark = pytest.mark.usefixtures("_clean_log")

TRACE: Final = 'Traceback (most recent call last):\n  File "x.py", line 1'
BAD_REQUEST: Final = (400, "BadRequestError")
UNAVAILABLE: Final = (503, "ServiceUnavailableError")
NO_REASON: Final = "gave no reason"

STATUSES: Final[dict[str, tuple[Reply, tuple[int, str], str]]] = {
    "400": (
        answer({"error": {"message": "max_tokens is too large", "code": 400}}, 400),
        BAD_REQUEST,
        "max_tokens is too large",
    ),
    "413": (answer({"message": "too much"}, 413), (413, "RequestTooLargeError"), "too much"),
    "422": (
        answer({"detail": [{"loc": ["body"], "msg": "Field required", "input": "quixotic"}]}, 422),
        (422, "UnprocessableEntityError"),
        "Field required",
    ),
    "429": (
        answer({"detail": "slow down"}, 429, [("retry-after", "7")]),
        (429, "RateLimitError"),
        "slow down",
    ),
    "400 without a message": (answer([], 400), BAD_REQUEST, NO_REASON),
    "400 that is not JSON": (Reply([b"<html>quixotic"], 400, "text/html"), BAD_REQUEST, NO_REASON),
    "400 with a stack trace": (answer({"message": TRACE}, 400), BAD_REQUEST, NO_REASON),
    "400 with a line of a stack trace": (
        answer({"message": "File /usr/lib/x.py line 3: no"}, 400),
        BAD_REQUEST,
        NO_REASON,
    ),
    "400 with a secret": (answer({"message": "no such token: secret-token"}, 400), BAD_REQUEST, NO_REASON),
    "400 with a host": (answer({"message": "gpu.internal is busy"}, 400), BAD_REQUEST, NO_REASON),
    "400 with a URL": (
        answer({"message": "can't load http://quixotic/x.png now"}, 400),
        BAD_REQUEST,
        "can't load (URL) now",
    ),
    "401": (answer({"error": {"message": "quixotic"}}, 401), BAD_GATEWAY, "status 401"),
    "404": (answer({"error": {"message": "quixotic"}}, 404), BAD_GATEWAY, "status 404"),
    "500": (answer({"error": {"message": TRACE}}, 500), BAD_GATEWAY, "status 500"),
    "403": (answer({"error": {"message": "quixotic"}}, 403), BAD_GATEWAY, "status 403"),
    "503": (
        answer({"error": {"message": "the engine is busy"}}, 503, [("retry-after", "7")]),
        UNAVAILABLE,
        "the engine is busy",
    ),
    "503 of a proxy": (Reply([b"quixotic" * 20_000], 503, "text/plain"), UNAVAILABLE, NO_REASON),
    "504": (answer({}, 504, [("retry-after", "7")]), BAD_GATEWAY, "status 504"),
    "a redirect": (answer({}, 307, [("location", "http://127.0.0.1:1/quixotic")]), BAD_GATEWAY, "status 307"),
    "202": (answer(response_of([1]), 202), BAD_GATEWAY, "status 202"),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("reply", "error", "message"), STATUSES.values(), ids=STATUSES)
@pytest.mark.parametrize("path", [CHAT + RELAY, CHAT], ids=["generate server", "render service"])
def test_an_unsuccessful_status(
    relay: InProcessRelay,
    upstream: UpstreamTransport,
    path: str,
    reply: Reply,
    error: tuple[int, str],
    message: str,
    *,
    streamed: bool,
) -> None:
    upstream.replies(reply)
    body = relay_chat(stream=streamed) if RELAY in path else {"messages": [], "stream": streamed}
    response = relay.post(path, body)
    assert read_error(response) == error
    assert message in response.json()["error"]["message"]
    sent = dict(reply.headers).get("retry-after") if error[0] == reply.status else None
    assert response.headers.get("retry-after") == sent
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"error": "no", "message": "other"}', "no"),
        (b'{"error": {"message": "  no\\n"}}', "no"),
        (b'{"error": {"message": 7}, "message": "", "detail": "no"}', "no"),
        (b'{"detail": [{"msg": "a"}, {"msg": "b"}, {}]}', "a; b; "),
        (b'{"detail": [{"msg": ""}]}', "the upstream refused the request and gave no reason"),
        (b'{"detail": []}', "the upstream refused the request and gave no reason"),
        (b'{"detail": ["quixotic"]}', "the upstream refused the request and gave no reason"),
        (b'{"message": "see ~/a/b.py and C:\\\\a\\\\b, not a/b"}', "see (path) and (path), not a/b"),
        (b'{"message": "%b"}' % (b"x" * 2 * MAX_MESSAGE), "x" * MAX_MESSAGE),
    ],
)
def test_the_message_of_a_refusal(content: bytes, message: str) -> None:
    refusal = refusal_of_body(400, content)
    assert refusal is not None
    assert refusal.message == message


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("rendered", [True, False])
def test_a_refusal_of_a_server_without_a_tokenizer_says_which_server_is_needed(
    relay: InProcessRelay, upstream: UpstreamTransport, *, rendered: bool, streamed: bool
) -> None:
    request = generate_request(sampling_params={"structured_outputs": {"json_object": True}})
    upstream.replies(answer(request))
    client = {"messages": [], "response_format": {"type": "json_object"}, "stream": streamed}
    response = relay.post(CHAT, client) if rendered else relay.post(CHAT + RELAY, relay_chat(request, **client))
    assert read_error(response) == BAD_REQUEST
    assert response.json()["error"]["message"] == NO_STRUCTURED_OUTPUTS + NEEDS_TOKENIZER


@pytest.mark.parametrize("message", [NO_STOP_STRINGS, NO_STRUCTURED_OUTPUTS, NO_OUTPUT_MODE])
def test_refusals_that_a_tokenizer_would_prevent(message: str) -> None:
    refusal = refusal_of_body(400, json.dumps({"error": {"message": message}}).encode())
    assert refusal is not None
    assert refusal.message == message.removesuffix(".") + NEEDS_TOKENIZER


@pytest.mark.parametrize("status", [200, 401, 403, 404, 500, 502, 504])
def test_other_statuses_are_not_refusals(status: int) -> None:
    assert refusal_of_body(status, b'{"message": "no"}') is None


@pytest.mark.parametrize(
    ("param", "expected"),
    [
        *((param, param) for param in ("max_tokens", "body.prompt.2", "stream_options[include-usage]")),
        *(
            (param, None)
            for param in (None, 7, "", "no such token", "http://x/y", "x" * 201, "of secret-token")
        ),
        ("secret-token", None),
    ],
)
def test_the_field_that_a_refusal_names(param: object, expected: str | None) -> None:
    body = json.dumps({"error": {"message": "no", "param": param}}).encode()
    refusal = refusal_of_body(400, body, secrets=["secret-token"])
    assert refusal is not None
    assert refusal.param == expected


@pytest.mark.parametrize("content", [b"[]", b'{"error": "no"}', b"quixotic"])
def test_a_refusal_may_name_no_field(content: bytes) -> None:
    refusal = refusal_of_body(400, content)
    assert refusal is not None
    assert refusal.param is None


def test_a_forbidden_generate_request_says_how_to_start_vllm(
    relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    upstream.replies(answer({}, 403))
    assert "--enable-scale-out" in relay.post(CHAT + RELAY, relay_chat()).json()["error"]["message"]
    upstream.replies(answer({}, 403))
    assert "--enable-scale-out" not in relay.post(CHAT, {"messages": []}).json()["error"]["message"]


def test_a_busy_upstream_is_logged(
    relay: InProcessRelay, upstream: UpstreamTransport, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.replies(answer({"message": "quixotic"}, 503))
    relay.post(CHAT + RELAY, relay_chat())
    assert "upstream gpu: responded with status 503" in caplog.messages


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("7", True),
        ("Wed, 21 Oct 2026 07:28:00 GMT", True),
        *((value, False) for value in ("0" * 10, "soon", "7" * 20_000, "\xe9", "-1")),
    ],
)
def test_only_a_valid_retry_after_is_passed_on(value: str, *, kept: bool) -> None:
    refusal: Any = refusal_of_body(429, b"{}", retry_after=value)
    assert refusal.retry_after == (value if kept else None)
