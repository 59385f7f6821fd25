"""Output lines, in the form of OpenAI's batches: an answer, a refused request, or a line that can't be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from derender.batch.errors import LineError
from derender.endpoints import answer_request
from derender.protocol.complete import ChatDerenderRequest
from derender.protocol.envelope import error_response
from derender.protocol.openai.chat import ChatCompletion
from derender.protocol.openai.completions import TextCompletion
from derender.protocol.reading import read
from derender.protocol.writing import dumps
from derender.telemetry.answer_facts import count_tokens
from derender.telemetry.faults import client_error
from derender.telemetry.tally import NOTHING, Tally

if TYPE_CHECKING:
    from derender.batch.job import Job
    from derender.endpoints import CompleteRequest
    from derender.models.model import Models
    from derender.protocol.generate import GenerateResponse

    from .references import CompleteLine
    from .requests import BatchRequest

__all__ = ["OutputLine", "answer_line", "count_answer", "refuse_duplicate", "sort_key"]

_START: Final = b'{"id":"batch_req_'
_KEY: Final = slice(len(_START), len(_START) + 28)


class OutputLine(NamedTuple):
    """The output line of an input line."""

    offset: int
    """Offset of the input line."""
    end: int
    """Offset of the next input line."""
    custom_id: str | None
    error: str | None
    """The kind of error: a `LineCode`, or a class of `derender.errors`."""
    content: bytes
    """The output line, with its newline."""
    size: int
    """Bytes that were read or written, whichever is more."""
    tally: Tally
    """Tally of the line, without counting it as a request."""


def answer_line(job: Job, models: Models, complete: CompleteLine) -> OutputLine:
    """Derender a line."""
    line, request, contents = complete
    line_id = job.line_id(line.offset)
    error: str | None = None
    tally = NOTHING
    if isinstance(request, LineError):
        error, content = request.code, _write_refused(line_id, line.offset, request)
    else:
        try:
            wanted, responses = _read_complete(request, contents, default_id=line_id)
            answer = answer_request(request.endpoint, models, wanted, job.created).content
            assert isinstance(answer, ChatCompletion | TextCompletion)
            content = _write_answer(line_id, request.custom_id, 200, answer)
            tally = count_tokens(responses, answer.usage)
        except Exception as caught:
            fault = client_error(caught)
            error = type(fault).__name__
            content = _write_answer(line_id, request.custom_id, int(fault.status), error_response(fault))
    size = max(line.end - line.offset + sum(map(len, contents)), len(content))
    if error is not None:
        tally = Tally(failed={error: 1})
    return OutputLine(line.offset, line.end, request.custom_id, error, content, size, tally)


def sort_key(output_line: bytes) -> bytes:
    """Return the `Job.line_id` of an output line. Output lines sort by it as input lines do."""
    return output_line[_KEY]


def count_answer(output_line: bytes) -> Tally:
    """Return the tokens of an output line that holds an answer."""
    usage = _answer.decode(output_line).response.body.usage
    return Tally(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)


def refuse_duplicate(job: Job, offset: int, output_line: bytes) -> bytes:
    """Return the output line that replaces an answer because an earlier line has the same `custom_id`."""
    custom_id = _answer.decode(output_line).custom_id
    error = LineError("duplicate_custom_id", "custom_id: an earlier line has the same", custom_id)
    return _write_refused(job.line_id(offset), offset, error)


def _read_complete(
    request: BatchRequest, contents: list[bytes], *, default_id: str
) -> tuple[CompleteRequest, list[GenerateResponse]]:
    """Return the request and its generate responses. A response without an id gets the line's."""
    wanted: CompleteRequest = read(request.endpoint.complete, request.complete_body(contents))
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


def _write_answer(line_id: str, custom_id: str, status: int, body: object) -> bytes:
    response = {"status_code": status, "request_id": f"req_{line_id}", "body": body}
    return _write(line_id, custom_id, response, None)


def _write_refused(line_id: str, offset: int, error: LineError) -> bytes:
    content = {"code": error.code, "message": error.message, "offset": offset}
    return _write(line_id, error.custom_id, None, content)


def _write(line_id: str, custom_id: str | None, response: object, error: object) -> bytes:
    fields = {"id": f"batch_req_{line_id}", "custom_id": custom_id, "response": response, "error": error}
    return dumps(fields) + b"\n"


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Body(msgspec.Struct):
    usage: _Usage


class _Response(msgspec.Struct):
    body: _Body


class _Answer(msgspec.Struct):
    custom_id: str
    response: _Response


_answer: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_Answer)
