"""The authorizer: which keys are known, and how API Gateway is answered."""

from __future__ import annotations

import hashlib
import hmac
import json
import runpy
from typing import TYPE_CHECKING, Any, Final

import pytest

from .stack import ACCOUNT, REGION, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[dict[str, Any], object], dict[str, Any]]

OLD: Final = "the old key, which is still in use"
NEW: Final = "the new key"
API: Final = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:a1b2c3"


def digest(key: str) -> str:
    """Return a key's digest, as `printf %s KEY | sha256sum` prints it."""
    return hashlib.sha256(key.encode()).hexdigest()


def start(monkeypatch: pytest.MonkeyPatch, digests: str) -> Handler:
    """Start the function with some digests."""
    monkeypatch.setenv("API_KEY_DIGESTS", digests)
    handler: Handler = runpy.run_path(str(ROOT / "handlers" / "authorizer.py"))["handler"]
    return handler


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Handler:
    return start(monkeypatch, f"{digest(NEW)},{digest(OLD)}")


def http_api(headers: dict[str, str] | None) -> dict[str, Any]:
    """Return an event of an HTTP API (payload format 2.0). Names of headers are in lower case."""
    return {
        "version": "2.0",
        "type": "REQUEST",
        "routeArn": f"{API}/$default/POST/v1/chat/completions/derender",
        "identitySource": [*(headers or {}).values()],
        "routeKey": "POST /{path+}",
        "rawPath": "/v1/chat/completions/derender",
        "headers": headers,
        "requestContext": {"accountId": ACCOUNT, "apiId": "a1b2c3", "stage": "$default"},
    }


def rest_api(headers: dict[str, str] | None) -> dict[str, Any]:
    """Return an event of a REST API for an authorizer of type REQUEST. Names of headers are the client's."""
    return {
        "type": "REQUEST",
        "methodArn": f"{API}/prod/POST/v1/chat/completions",
        "resource": "/{path+}",
        "path": "/v1/chat/completions",
        "httpMethod": "POST",
        "headers": headers,
        "requestContext": {"accountId": ACCOUNT, "apiId": "a1b2c3", "stage": "prod"},
    }


@pytest.mark.parametrize("key", [OLD, NEW])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_known_keys_are_let_in_and_named(handler: Handler, key: str, scheme: str) -> None:
    answer = handler(http_api({"authorization": f"{scheme} {key}"}), None)
    assert answer == {"isAuthorized": True, "context": {"key": digest(key)[:8]}}


@pytest.mark.parametrize(
    "headers",
    [
        None,
        {},
        {"authorization": ""},
        {"authorization": NEW},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {NEW}"},
        {"authorization": "Bearer another key"},
        {"authorization": f"Bearer {NEW}x"},
        {"authorization": f"Bearer {NEW.upper()}"},
        {"authorization": f"Bearer {NEW} {NEW}"},
        {"authorization": f"Bearer {digest(NEW)}"},
        {"authorization": "Bearer \ud800"},
        {"x-api-key": NEW},
    ],
)
def test_other_requests_are_denied(handler: Handler, headers: dict[str, str] | None) -> None:
    assert handler(http_api(headers), None) == {"isAuthorized": False}
    (statement,) = handler(rest_api(headers), None)["policyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"


def test_an_answer_to_a_rest_api_covers_its_stage(handler: Handler) -> None:
    """API Gateway reuses the answer for five minutes, whatever the path."""
    answer = handler(rest_api({"Authorization": f"Bearer {OLD}"}), None)
    name = digest(OLD)[:8]
    assert answer == {
        "principalId": name,
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": f"{API}/prod/*"},
            ],
        },
        "context": {"key": name},
    }


@pytest.mark.parametrize("digests", ["", ",", " , "])
def test_without_digests_all_keys_are_denied(monkeypatch: pytest.MonkeyPatch, digests: str) -> None:
    handler = start(monkeypatch, digests)
    for key in ("", NEW):
        assert handler(http_api({"authorization": f"Bearer {key}"}), None) == {"isAuthorized": False}


def test_an_empty_key_is_denied_even_if_its_digest_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = start(monkeypatch, digest(""))
    assert handler(http_api({"authorization": "Bearer "}), None) == {"isAuthorized": False}


@pytest.mark.parametrize("key", [NEW, OLD, "another key"])
def test_each_key_is_compared_with_all_digests(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    compared = []

    def compare(left: str, right: str) -> bool:
        compared.append((left, right))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    handler(http_api({"authorization": f"Bearer {key}"}), None)
    assert compared == [(digest(key), digest(NEW)), (digest(key), digest(OLD))]


def test_nothing_of_a_request_is_printed(handler: Handler, capfd: pytest.CaptureFixture[str]) -> None:
    for key in (NEW, "another key"):
        answers = [make({"authorization": f"Bearer {key}"}) for make in (http_api, rest_api)]
        assert key not in json.dumps([handler(each, None) for each in answers])
    assert capfd.readouterr() == ("", "")


def test_it_imports_the_standard_library_only() -> None:
    imported = {
        line.split()[1].partition(".")[0]
        for line in (ROOT / "handlers" / "authorizer.py").read_text(encoding="utf-8").splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported == {"__future__", "hashlib", "hmac", "os", "typing"}
