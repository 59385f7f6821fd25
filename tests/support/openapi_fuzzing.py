"""Requests that schemathesis makes from an OpenAPI document, and checks of the answers."""

from __future__ import annotations

import re
from http.client import BAD_REQUEST, INTERNAL_SERVER_ERROR
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import requests
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from derender.errors import InvalidRequest

if TYPE_CHECKING:
    import schemathesis
    from schemathesis import Response

    Case = schemathesis.Case[Any]

__all__ = ["FUZZED", "JsonSession", "check"]

FUZZED: Final = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
_UNSAID: Final = re.compile(r"length \(\d+\) must equal")
"""The refusal of lists with different lengths, which JSON Schema can't express."""


class JsonSession(requests.Session):
    """Sends JSON in which whole numbers have no fraction.

    JSON Schema does not tell 1.0 from 1, so a document can't say that an API accepts only one of them.

    Args:
        accept: Values of the Accept header, used in turns.
    """

    def __init__(self, *accept: str) -> None:
        super().__init__()
        self._accept = cycle(accept)

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Write a request's body and headers."""
        request.json = _whole(request.json)
        prepared = super().prepare_request(request)
        prepared.headers["accept"] = next(self._accept)
        return prepared


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def check(case: Case, session: requests.Session, url: str) -> None:
    """Send a request and check the answer.

    Its status, content type and form are documented, and it is no internal error. Requests that don't match the
    document are refused. Requests that match it are understood.
    """
    answer = case.call(session=session, base_url=url)
    case.validate_response(
        answer,
        additional_checks=[_no_own_fault, _understood],
        # 502 and 504 are documented answers of the relay.
        excluded_checks=[not_a_server_error, positive_data_acceptance],
    )


def _no_own_fault(_: schemathesis.CheckContext, answer: Response, case: Case) -> None:  # noqa: ARG001
    assert answer.status_code != INTERNAL_SERVER_ERROR


def _understood(_: schemathesis.CheckContext, answer: Response, case: Case) -> None:
    """Check that a request of the documented form is refused for its values only, such as unknown ids."""
    if case.meta is None or not case.meta.generation.mode.is_positive or answer.status_code < BAD_REQUEST:
        return
    error = answer.json()["error"]
    assert error["type"] != InvalidRequest.type or _UNSAID.search(error["message"]), error["message"]
