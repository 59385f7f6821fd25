"""A vLLM server is asked within limits, and its faults are one line."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from derender.cli import main
from layer_compiler.checking import vllm_server
from tests.layers.stand_ins import serve, vllm
from tests.support.small_tokenizers import byte_level_tokenizer

from .checks import answer_with, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.layers.stand_ins import Answer


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (answer_with(404, b"not found"), "has neither /tokenize nor /detokenize"),
        (answer_with(500, b"broken"), "/tokenize: status 500: 'broken'"),
        (answer_with(302, b""), "/tokenize: status 302"),
        (answer_with(200, b"[]"), "not an answer of vLLM"),
        (answer_with(200, b'{"tokens": [-1]}'), "not an answer of vLLM"),
        (answer_with(200, b'{"tokens": ["a"]}'), "not an answer of vLLM"),
        (
            lambda *_: (200, {}, b'{"data": [{"id": "a"}, {"id": "b"}]}'),
            "serves a, b; choose one with --served-model",
        ),
    ],
)
def test_a_server_that_answers_otherwise_is_reported_in_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], answer: Callable[..., Answer], problem: str
) -> None:
    assert check(tiny, answer) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("derender: ")
    assert printed.err.count("\n") == 1
    assert problem in printed.err


@pytest.mark.parametrize("host", ["xn--.com", "a" * 300, f"{'a' * 64}.com"])
def test_a_host_that_can_not_exist_is_reported_in_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    assert main(["layer", "check", str(tiny), "--render-url", f"http://{host}"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"derender: http://{host[:100]}")
    assert printed.count("\n") == 1


def test_an_unreachable_server_is_reported(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layer", "check", str(tiny), "--render-url", "http://127.0.0.1:9"]) == 1
    assert "http://127.0.0.1:9/v1/models: " in capsys.readouterr().err


def test_a_slow_server_is_not_waited_for(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*_: Any) -> Answer:
        time.sleep(0.5)
        return 404, {}, b""

    assert check(tiny, answer, "--timeout", "0.1") == 1
    assert "no answer in time" in capsys.readouterr().err


def test_headers_are_sent_with_each_request(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Mapping[str, str]] = []
    monkeypatch.setenv("KEY", "secret")
    with serve(vllm(byte_level_tokenizer()), received) as url:
        given = json.dumps({"url": url, "headers": {"authorization": "Bearer ${KEY}"}})
        assert main(["layer", "check", str(tiny), "--render-url", given]) == 0
    assert {headers["authorization"] for headers in received} == {"Bearer secret"}


def test_an_endless_answer_is_not_read(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_server, "_MAX_ANSWER_BYTES", 1 << 20)
    assert check(tiny, answer_with(200, b" " * (1 << 21))) == 1
    assert "/tokenize: sends more than 1 MB" in capsys.readouterr().err


def test_an_answer_that_arrives_slowly_is_not_waited_for(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0, 0])
    monkeypatch.setattr("layer_compiler.checking.vllm_server.time.monotonic", lambda: next(times, 100))
    assert check(tiny, vllm(byte_level_tokenizer())) == 1
    assert "/v1/models: no answer in time; allow more with --timeout" in capsys.readouterr().err


def test_a_model_is_chosen_by_the_vocabularys_name(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = b'{"data": [{"id": "other"}, {"id": "tiny", "max_model_len": 1000}]}'
    tokenizer = vllm(byte_level_tokenizer(), name="tiny")

    def answer(method: str, path: str, body: bytes) -> Answer:
        return (200, {}, models) if method == "GET" else tokenizer(method, path, body)

    assert check(tiny, answer) == 0, capsys.readouterr().out
