"""What schemathesis sends, of an OpenAPI document, and what has to be true of the answers."""

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
"""JSON Schema has no word for lists of the same length."""


class JsonSession(requests.Session):
    """Sends JSON as it is usually written: whole numbers without a fraction.

    JSON Schema does not tell 1.0 from 1, so it can't say that an API takes one of them only.

    Args:
        accept: What the client accepts: of one request the first, of the next the second, and so on.
    """

    def __init__(self, *accept: str) -> None:
        super().__init__()
        self._accept = cycle(accept)

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Write a request."""
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
    """Send a request, and check that the answer is as the document says.

    It is of a status, content type and form that are documented, and no fault of derender's own. What is not of
    the form that the document wants is refused, and what is of it is understood.
    """
    answer = case.call(session=session, base_url=url)
    case.validate_response(
        answer,
        additional_checks=[_no_own_fault, _understood],
        # Those of gateways are servers' too, and documented where there may be some.
        excluded_checks=[not_a_server_error, positive_data_acceptance],
    )


def _no_own_fault(_: schemathesis.CheckContext, answer: Response, case: Case) -> None:  # noqa: ARG001
    assert answer.status_code != INTERNAL_SERVER_ERROR


def _understood(_: schemathesis.CheckContext, answer: Response, case: Case) -> None:
    """Whether what is of the documented form is refused, if at all, for what it says: ids of no token, say."""
    if case.meta is None or not case.meta.generation.mode.is_positive or answer.status_code < BAD_REQUEST:
        return
    error = answer.json()["error"]
    assert error["type"] != InvalidRequest.type or _UNSAID.search(error["message"]), error["message"]
