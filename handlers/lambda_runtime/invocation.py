"""Invocations: the ids that the log lines of an invocation carry."""

from __future__ import annotations

from derender.telemetry.log_lines import INVOCATION
from derender.telemetry.request_ids import REQUEST_ID, harmless_or_none

__all__ = ["begin_invocation"]


def begin_invocation(
    invocation_id: object, *, request_context: object = None, trace_id: str | None = None
) -> None:
    """Set the ids that log lines carry from now on. Ids that are not harmless strings are left out.

    Args:
        invocation_id: Lambda's id of the invocation.
        request_context: The `requestContext` of an HTTP event. Its id names requests whose client sends none.
        trace_id: The id of the trace. Powertools finds it by itself where Lambda's runtime puts it into the
            environment.
    """
    request_id = request_context.get("requestId") if isinstance(request_context, dict) else None
    REQUEST_ID.set(harmless_or_none(request_id))
    ids = {"function_request_id": harmless_or_none(invocation_id), "xray_trace_id": trace_id}
    INVOCATION.set({name: value for name, value in ids.items() if value is not None})
