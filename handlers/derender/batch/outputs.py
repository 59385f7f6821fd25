"""Requests → output lines, in the form of OpenAI's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from derender.endpoints import answer_request
from derender.protocol.derender import ChatDerenderRequest
from derender.protocol.envelope import error_response
from derender.protocol.openai import ChatCompletion, TextCompletion
from derender.protocol.reading import read
from derender.protocol.writing import dumps
from derender.telemetry.answer_facts import count_tokens
from derender.telemetry.faults import client_error
from derender.telemetry.tally import Tally

from .errors import LineError

if TYPE_CHECKING:
    from derender.endpoints import CompleteRequest
    from derender.models.model import Models
    from derender.protocol.generate import GenerateResponse

    from .ahead import Ready
    from .job import Job
    from .requests import BatchRequest

__all__ = ["Output", "answer_line", "as_duplicate", "key_of", "tally_of"]

_BEGIN: Final = b'{"id":"batch_req_'
_KEY: Final = slice(len(_BEGIN), len(_BEGIN) + 28)


class Output(NamedTuple):
    """A line that is done."""

    offset: int
    """Where it begins, in bytes."""
    end: int
    """Where the next one does."""
    custom_id: str | None
    error: str | None
    """What kind of error it is: a `LineCode`, or the name of a class of `derender.errors`."""
    content: bytes
    """The output line, with its newline."""
    size: int
    """Bytes that went in or came out, whatever is more."""
    tally: Tally


def answer_line(job: Job, models: Models, ready: Ready) -> Output:
    """Derender a line."""
    line, request, contents = ready
    line_id = job.line_id(line.offset)
    tally = Tally(requests=1)
    error: str | None = None
    if isinstance(request, LineError):
        error, content = request.code, _refused_line(line_id, line.offset, request)
    else:
        try:
            wanted, responses = _read(request, contents, default_id=line_id)
            answered = answer_request(request.endpoint, models, wanted, job.created).content
            assert isinstance(answered, ChatCompletion | TextCompletion)
            content = _answered_line(line_id, request.custom_id, 200, answered)
            tally += count_tokens(responses, answered.usage)
        except Exception as found:
            fault = client_error(found)
            error = type(fault).__name__
            content = _answered_line(line_id, request.custom_id, int(fault.status), error_response(fault))
    size = max(line.end - line.offset + sum(map(len, contents)), len(content))
    if error is not None:
        tally += Tally(failed={error: 1})
    return Output(line.offset, line.end, request.custom_id, error, content, size, tally)


def key_of(output_line: bytes) -> bytes:
    """What an output line's id has of `Job.line_id`: output lines sort by it as input lines do."""
    return output_line[_KEY]


def tally_of(output_line: bytes) -> Tally:
    """The tokens that an answer says."""
    usage = _answered.decode(output_line).response.body.usage
    return Tally(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)


def as_duplicate(job: Job, offset: int, output_line: bytes) -> bytes:
    """What stands for the answer to a line whose `custom_id` an earlier line has."""
    custom_id = _answered.decode(output_line).custom_id
    error = LineError("duplicate_custom_id", "custom_id: an earlier line has the same", custom_id)
    return _refused_line(job.line_id(offset), offset, error)


def _read(
    request: BatchRequest, contents: list[bytes], *, default_id: str
) -> tuple[CompleteRequest, list[GenerateResponse]]:
    """A request, and the generate responses in it.

    One without an id gets one that is the same whenever this is done.
    """
    wanted: CompleteRequest = read(request.endpoint.complete, request.complete(contents))
    responses = (
        [wanted.generate_response] if isinstance(wanted, ChatDerenderRequest) else wanted.generate_responses
    )
    if all("request_id" in response.model_fields_set for response in responses):
        return wanted, responses
    named = [
        response
        if "request_id" in response.model_fields_set
        else response.model_copy(update={"request_id": default_id})
        for response in responses
    ]
    is_chat = isinstance(wanted, ChatDerenderRequest)
    update = {"generate_response": named[0]} if is_chat else {"generate_responses": named}
    return wanted.model_copy(update=update), named


def _answered_line(line_id: str, custom_id: str, status: int, body: object) -> bytes:
    response = {"status_code": status, "request_id": f"req_{line_id}", "body": body}
    return _written(line_id, custom_id, response, None)


def _refused_line(line_id: str, offset: int, error: LineError) -> bytes:
    told = {"code": error.code, "message": error.message, "offset": offset}
    return _written(line_id, error.custom_id, None, told)


def _written(line_id: str, custom_id: str | None, response: object, error: object) -> bytes:
    fields = {"id": f"batch_req_{line_id}", "custom_id": custom_id, "response": response, "error": error}
    return dumps(fields) + b"\n"


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Body(msgspec.Struct):
    usage: _Usage


class _Response(msgspec.Struct):
    body: _Body


class _Answered(msgspec.Struct):
    custom_id: str
    response: _Response


_answered: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_Answered)
