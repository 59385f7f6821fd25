"""Output lines: answers, refused requests, and lines that can't be run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.endpoints import answer_request
from tests.batch.inputs import CHAT, COMPLETIONS, END, HELLO, chat, completion, generated, line
from tests.batch.jobs import CREATED, MAX_LINE, run_job

CANDIDATE = {"token_id": 9707, "logprob": -0.5}


LOGPROBS = {"content": [{**CANDIDATE, "top_logprobs": [CANDIDATE, CANDIDATE]}]}


def only(content: bytes) -> Any:
    """Return the only output line of an input."""
    (output,) = run_job(content).outputs
    return output


# --- answers --------------------------------------------------------------------------------------------------


def test_an_answer_has_the_form_of_openai() -> None:
    output = only(line("my-id"))
    assert list(output) == ["id", "custom_id", "response", "error"]
    assert output["custom_id"] == "my-id"
    assert output["error"] is None
    assert output["response"]["status_code"] == 200
    body = output["response"]["body"]
    assert body["object"] == "chat.completion"
    assert body["id"] == "gen-1"
    assert body["created"] == CREATED
    assert body["choices"][0]["message"]["content"] == "Hello, world!"
    assert body["usage"]["total_tokens"] == 12


def test_completions_are_answered_too() -> None:
    output = only(line(body=completion(generated(), generated()), url=COMPLETIONS))
    assert [choice["text"] for choice in output["response"]["body"]["choices"]] == ["Hello, world!"] * 2


def test_an_id_holds_the_job_and_the_offset() -> None:
    first, second = run_job(line("a") + line("b")).outputs
    assert first["id"] != second["id"]
    for output, offset in ((first, 0), (second, len(line("a")))):
        assert output["id"].startswith("batch_req_")
        assert output["id"].endswith(f"{offset:012x}")
        assert output["response"]["request_id"] == output["id"].replace("batch_req_", "req_")


@pytest.mark.parametrize("url", [CHAT, COMPLETIONS])
def test_a_generation_without_an_id_always_gets_the_same_one(url: str) -> None:
    response = generated()
    del response["request_id"]
    body = chat(response) if url == CHAT else completion(response, generated())
    first, second = (only(line(body=body, url=url)) for _ in range(2))
    assert first == second
    assert first["response"]["body"]["id"] == first["id"].removeprefix("batch_req_")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\n", b"\n \t\r\n"])
def test_a_file_may_end_in_any_way(end: bytes) -> None:
    assert only(line().rstrip(b"\n") + end)["error"] is None


def test_blank_lines_are_skipped() -> None:
    made = run_job(b"\n" + line("a") + b"  \n\r\n" + line("b") + b"\n")
    assert [output["custom_id"] for output in made.outputs] == ["a", "b"]
    assert made.manifest["counts"] == {"total": 2, "completed": 2, "failed": 0}


def test_an_empty_file_has_no_lines() -> None:
    made = run_job(b"")
    assert made.outputs == []
    assert (made.manifest["results"], made.manifest["errors"]) == ([], None)


def test_unknown_fields_are_ignored() -> None:
    assert only(line(extra={"a": [1, "s3://b/c"]}))["error"] is None


def test_tokens_and_lines_are_counted() -> None:
    response = generated(HELLO[:1])
    response["choices"][0]["logprobs"] = LOGPROBS
    made = run_job(line("a") + line("b", chat(response)) + line("c", {}))
    assert made.manifest["usage"] == {"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": 20}
    assert made.manifest["counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert made.finished["counts"] == made.manifest["counts"]


GOOD = json.loads(line())


def line_without(field: str) -> bytes:
    return json.dumps({name: value for name, value in GOOD.items() if name != field}).encode()


def line_with(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


@pytest.mark.parametrize(
    ("bad", "code", "custom_id"),
    [
        pytest.param(b"x", "invalid_json_line", None, id="no JSON"),
        pytest.param(line()[:-3], "invalid_json_line", None, id="truncated"),
        pytest.param(line().strip() + b"x", "invalid_json_line", None, id="text after it"),
        pytest.param(line().strip() * 2, "invalid_json_line", None, id="two in one line"),
        pytest.param(b'{"custom_id": "\xff"}', "invalid_custom_id", None, id="no UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + line().strip(), "invalid_json_line", None, id="byte order mark"),
        pytest.param(b'{"custom_id": "\\ud800"}', "invalid_json_line", None, id="half a character"),
        pytest.param(b"[1]", "invalid_json_line", None, id="no object"),
        pytest.param(b"null", "invalid_json_line", None, id="null"),
        pytest.param(
            b'{"body": %b%b}' % (b"[" * 9999, b"]" * 9999), "invalid_json_line", None, id="nested too deeply"
        ),
        pytest.param(line_with(custom_id="a" * MAX_LINE), "line_too_long", None, id="over the limit"),
        pytest.param(line_without("custom_id"), "invalid_custom_id", None, id="no custom_id"),
        pytest.param(line_with(custom_id=7), "invalid_custom_id", None, id="custom_id that is no string"),
        pytest.param(line_with(custom_id=None), "invalid_custom_id", None, id="custom_id that is null"),
        pytest.param(line_without("method"), "invalid_method", "a", id="no method"),
        pytest.param(line_with(method="GET"), "invalid_method", "a", id="another method"),
        pytest.param(line_with(method=["POST"]), "invalid_method", "a", id="method that is no string"),
        pytest.param(line_without("url"), "invalid_url", "a", id="no url"),
        pytest.param(line_with(url="/v1/embeddings"), "invalid_url", "a", id="another url"),
        pytest.param(line_with(url={}), "invalid_url", "a", id="url that is no string"),
        pytest.param(line_without("body"), "missing_body", "a", id="no body"),
        pytest.param(line_with(body="s3:/bucket/key"), "invalid_reference", "a", id="no reference"),
        pytest.param(
            line_with(body=chat("s3://bucket")), "invalid_reference", "a", id="reference without a key"
        ),
        pytest.param(line_with(body=chat("s3://B/key")), "invalid_reference", "a", id="reference to no bucket"),
    ],
)
def test_a_bad_line_fails_alone(bad: bytes, code: str, custom_id: str | None) -> None:
    before, output, after = run_job(line("before") + bad + b"\n" + line("after")).outputs
    assert (before["custom_id"], after["custom_id"]) == ("before", "after")
    assert before["error"] is after["error"] is None
    assert output["response"] is None
    assert output["error"]["code"] == code
    assert output["error"]["offset"] == len(line("before"))
    assert output["error"]["message"]
    assert output["custom_id"] == custom_id


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        pytest.param({}, 400, "generate_response", id="nothing in it"),
        pytest.param(3, 400, "body", id="no object"),
        pytest.param(None, 400, "body", id="null"),
        pytest.param([], 400, "body", id="a list"),
        pytest.param(["s3://bucket/key"], 400, "body", id="a list of a reference"),
        pytest.param("elsewhere", 400, "body", id="a string that is no reference"),
        pytest.param(chat("elsewhere"), 400, "generate_response", id="a string in it that is no reference"),
        pytest.param(chat({"request_id": 1}), 400, "generate_response.request_id", id="of another type"),
        pytest.param(chat(stream=True), 400, "stream", id="a stream"),
        pytest.param(chat(model="other"), 404, "model", id="another model"),
        pytest.param(chat(generated([10**9])), 400, "generate_response.choices.0.token_ids.0", id="no such id"),
        pytest.param(chat(generated([])), 400, "generate_response.choices.0.token_ids", id="no ids"),
    ],
)
def test_a_refused_request_has_its_status_and_envelope(body: object, status: int, param: str) -> None:
    refused = json.dumps({**GOOD, "custom_id": "refused", "body": body}).encode() + b"\n"
    made = run_job(line("before") + refused + line("after"))
    assert b'"refused"' not in made.results
    (output,) = map(json.loads, made.errors.splitlines())
    assert (output["custom_id"], output["error"]) == ("refused", None)
    assert output["response"]["status_code"] == output["response"]["body"]["error"]["code"] == status
    assert output["response"]["body"]["error"]["param"] == param
    assert made.manifest["counts"] == {"total": 3, "completed": 2, "failed": 1}


def test_errors_repeat_nothing_of_a_line() -> None:
    marker = "quixotic-marmalade"
    content = b"\n".join(
        [
            marker.encode(),
            b'{"%b": ' % marker.encode(),
            line_with(custom_id={marker: 1}),
            line_with(method=marker),
            line_with(url=marker),
            line_with(body=f"s3:{marker}"),
            line_with(body={"generate_response": marker}),
            line_with(body=chat(generated([*HELLO, 10**7], metrics=marker))),
        ]
    )
    made = run_job(content)
    assert len(made.errors.splitlines()) == 8
    assert marker.encode() not in made.errors
    assert b"9707" not in made.errors


def test_an_internal_error_fails_its_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_or_fail(*arguments: Any) -> Any:
        if arguments[2].prompt_tokens == 13:
            raise ZeroDivisionError("quixotic-marmalade")
        return answer_request(*arguments)

    monkeypatch.setattr("derender.batch.lines.output_lines.answer_request", answer_or_fail)
    made = run_job(line("a") + line("b", chat(prompt_tokens=13)) + line("c"))
    assert [output["response"]["status_code"] for output in made.outputs] == [200, 500, 200]
    assert made.manifest["failures"] == {"InternalError": 1}
    assert b"marmalade" not in made.errors


ANY_LINE = st.one_of(
    st.builds(
        line, st.sampled_from(["a", "b", "c", "d", 7]), st.sampled_from([chat(), {}, chat(generated([END]))])
    ),
    st.binary(max_size=30).filter(lambda content: b"\n" not in content).map(lambda content: content + b"\n"),
    st.just(b"\n"),
    st.integers(500, 1500).map(lambda length: b" " * length + b"x\n"),
)


@settings(deadline=None)
@given(
    content=st.lists(ANY_LINE, max_size=12),
    part_bytes=st.integers(1, 4000),
    lines=st.integers(1, 5),
    size=st.integers(1, 4000),
    ends=st.booleans(),
)
def test_parts_and_pieces_of_any_size_give_the_same_lines(
    content: list[bytes], part_bytes: int, lines: int, size: int, *, ends: bool
) -> None:
    whole = b"".join(content)
    if not ends:
        whole = whole[:-1]
    once = run_job(whole, part_bytes=max(len(whole), 1), max_line=600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("derender.batch.steps.derender.MAX_LINES", lines)
        patch.setattr("derender.batch.steps.derender.MAX_BYTES", size)
        cut = run_job(whole, part_bytes=max(part_bytes, len(whole) // 400), max_line=600)
    assert (cut.results, cut.errors) == (once.results, once.errors)
    for name in ("counts", "failures", "usage"):
        assert cut.manifest[name] == once.manifest[name]
    starts = [0, *(at + 1 for at, byte in enumerate(whole) if byte == ord("\n"))]
    assert [int(output["id"][-12:], 16) for output in once.outputs] == [
        at for at, each in zip(starts, whole.split(b"\n"), strict=True) if each and not each.isspace()
    ]
