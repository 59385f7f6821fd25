"""The memory of a request is bounded: by its body, by the largest answer, and by a constant."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests.support.paths import ROOT

BODY: Final = 2_000_000
ANSWER: Final = 16_000_000
LIMIT: Final = 40 * BODY + 4 * ANSWER + 64_000_000
"""What docs/configuration.md says that a request takes."""
PROGRAM: Final = """
import resource, sys
from derender.endpoints import CHAT, answer
from derender.errors import DerenderError
from derender.models.layer import load_models
from derender.protocol.writing import dumps
from derender.settings import Settings
from derender.streaming import Derendered

body, limit = int(sys.argv[1]), int(sys.argv[3])
begin, item, end = (each.encode() for each in sys.argv[4:])
models = load_models(Settings.from_environment({"DERENDER_MAX_ANSWER_BYTES": sys.argv[2]}))
request = begin + item * (body // len(item)) + item.rstrip(b",") + end
with open("/proc/self/statm") as pages:
    size = int(pages.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + limit, size + limit))
try:
    content = answer(CHAT, models, request, 1).content
    dumps([content.chunks, content.state] if isinstance(content, Derendered) else content)
    print(200)
except DerenderError as error:
    print(int(error.status))
"""
LONG_ID: Final = 56_940
"""An id of Qwen3 whose text is 128 spaces."""
CALL: Final = "151657,198,4913,606,788,330,64,497,330,16370,788,4687,532,151658,198,"
"""Ids of a call of the tool `a`, as Qwen3 writes it."""
BEGIN: Final = '{"chat_request":{},"generate_response":{"request_id":"r","choices":['


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize(
    ("begin", "item", "end", "status"),
    [
        pytest.param(BEGIN, '{"index":0,"token_ids":[' + "9707," * 999 + "9707]},", "]}}", 200, id="ids"),
        pytest.param(
            BEGIN.replace("{}", '{"tools":[{"type":"function","function":{"name":"a"}}]}'),
            '{"index":0,"token_ids":[' + CALL * 500 + "198]},",
            "]}}",
            200,
            id="calls",
        ),
        pytest.param(
            BEGIN, '{"index":0,"token_ids":[' + f"{LONG_ID}," * 999 + "1]},", "]}}", 413, id="ids of long texts"
        ),
        pytest.param(
            BEGIN + '{"index":0,"token_ids":[1],"logprobs":{"content":[',
            '{"logprob":0,"token_id":1,"top_logprobs":['
            + f'{{"logprob":0,"token_id":{LONG_ID}}},' * 20
            + '{"logprob":0,"token_id":1}]},',
            "]}}]}}",
            413,
            id="candidates of long texts",
        ),
        pytest.param(BEGIN, '{"index":0,"token_ids":[1]},', "]}}", 400, id="choices"),
        pytest.param(
            '{"chat_request":{},"stream":true,"generate_chunks":[', '{"choices":[]},', "]}", 400, id="chunks"
        ),
        pytest.param(BEGIN + '{"index":0,"token_ids":[', '"",', "]}]}}", 400, id="wrong ids"),
        pytest.param(BEGIN, "{},", "]}}", 400, id="wrong choices"),
        pytest.param(
            '{"generate_response":{"choices":[],"prompt_logprobs":[', "1,", "]}}", 400, id="wrong logprobs"
        ),
        pytest.param(
            '{"chat_request":{"messages":[',
            "300,",
            ']},"generate_response":{"choices":[{"index":0,"token_ids":[1]}]}}',
            200,
            id="JSON",
        ),
    ],
)
def test_no_request_takes_more_memory_than_is_said(begin: str, item: str, end: str, status: int) -> None:
    arguments = [str(BODY), str(ANSWER), str(LIMIT), begin, item, end]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT / "handlers",
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [str(status)], done.stderr[-500:]


def test_the_bound_is_documented() -> None:
    page = " ".join((ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").split())
    assert "40 times its decompressed body, four times the largest answer, and 64 MB" in page
