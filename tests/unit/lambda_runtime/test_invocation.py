"""The ids that log lines of an invocation carry."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pytest

from lambda_runtime.invocation import begin_invocation

if TYPE_CHECKING:
    from tests.support.log_lines import LogLines

logger: Final = logging.getLogger("derender")
TRACE: Final = "1-5759e988-bd862e3fe1be46a994272793"


def test_lines_carry_ids(log_lines: LogLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", f"Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=1")
    begin_invocation("invoked-1", request_context={"requestId": "gateway-1"})
    logger.error("x")
    (line,) = log_lines()
    assert (line["request_id"], line["function_request_id"]) == ("gateway-1", "invoked-1")
    assert line["xray_trace_id"] == TRACE


def test_a_trace_may_be_given(log_lines: LogLines) -> None:
    begin_invocation("invoked-1", trace_id=TRACE)
    logger.error("x")
    (line,) = log_lines()
    assert line["xray_trace_id"] == TRACE


@pytest.mark.parametrize(
    "request_context", [None, [], "x", {}, {"requestId": None}, {"requestId": "two words"}]
)
@pytest.mark.parametrize("invocation_id", [None, 7, "two words"])
def test_odd_ids_are_left_out(log_lines: LogLines, invocation_id: object, request_context: object) -> None:
    begin_invocation("before", request_context={"requestId": "before"})
    begin_invocation(invocation_id, request_context=request_context)
    logger.error("x")
    (line,) = log_lines()
    assert line.keys().isdisjoint({"request_id", "function_request_id", "xray_trace_id"})
