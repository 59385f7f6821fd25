"""The command line."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from starlette.middleware.cors import CORSMiddleware

import derender.cli
from derender import __version__
from derender.cli import main
from derender.models.layer import load_models
from derender.settings import default_layer

if TYPE_CHECKING:
    from pathlib import Path

    from derender.models.model import Models
    from derender.settings import Settings

DERENDER = "/v1/chat/completions/derender"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[set[str], dict[str, Any]]]:
    """The paths and the options of each application that is served, without serving it."""
    calls: list[tuple[set[str], dict[str, Any]]] = []

    def run(app: Any, **options: Any) -> None:
        calls.append(({route.path for route in app.routes}, options))

    monkeypatch.setattr("uvicorn.run", run)
    return calls


def test_serve_serves_the_application(served: list[tuple[set[str], dict[str, Any]]]) -> None:
    assert main(["serve"]) == 0
    assert main(["serve", "--host", "::1", "--port", "0"]) == 0
    (paths, first), (_, second) = served
    assert DERENDER in paths
    assert f"{DERENDER}/relay" not in paths
    assert (first["host"], first["port"]) == ("127.0.0.1", 8000)
    assert (second["host"], second["port"]) == ("::1", 0)


def test_serve_relays_if_there_are_upstreams(
    served: list[tuple[set[str], dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERENDER_UPSTREAMS", '{"gpu": "http://127.0.0.1:1"}')
    assert main(["serve"]) == 0
    ((paths, _),) = served
    assert {DERENDER, f"{DERENDER}/relay"} <= paths


@pytest.mark.parametrize("upstreams", ["", '{"gpu": "http://127.0.0.1:1"}'])
@pytest.mark.parametrize(
    ("arguments", "variable", "allowed"),
    [
        ([], "", None),
        ([], "https://a.example", ["https://a.example"]),
        (["--allowed-origins", "*"], "https://a.example", ["*"]),
        (["--allowed-origins", "http://b", "http://c,http://d"], "", ["http://b", "http://c", "http://d"]),
        (["--allowed-origins", ""], "https://a.example", None),
    ],
)
def test_serve_allows_origins(
    monkeypatch: pytest.MonkeyPatch,
    upstreams: str,
    arguments: list[str],
    variable: str,
    allowed: list[str] | None,
) -> None:
    served: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **_: served.append(app))
    monkeypatch.setenv("DERENDER_UPSTREAMS", upstreams)
    monkeypatch.setenv("DERENDER_ALLOWED_ORIGINS", variable)
    assert main(["serve", *arguments]) == 0
    (app,) = served
    found = [each.kwargs["allow_origins"] for each in app.user_middleware if each.cls is CORSMiddleware]
    assert [list(each) for each in found] == ([] if allowed is None else [allowed])


def test_an_origin_with_a_path_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--allowed-origins", "https://a.example/"])
    error = capsys.readouterr().err
    assert "argument --allowed-origins: must be origins such as https://app.example, without a path" in error


@pytest.mark.parametrize(
    ("arguments", "variable", "expected"),
    [
        ([], "", {}),
        ([], '{"enable_thinking": true}', {"enable_thinking": True}),
        (['{"enable_thinking": false}'], '{"enable_thinking": true}', {"enable_thinking": False}),
        (["{}"], '{"enable_thinking": true}', {}),
    ],
)
def test_serve_has_default_arguments_of_the_chat_template(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], variable: str, expected: dict[str, bool]
) -> None:
    loaded: list[Models] = []

    def load(settings: Settings) -> Models:
        loaded.append(load_models(settings))
        return loaded[0]

    monkeypatch.setattr("uvicorn.run", lambda *_, **__: None)
    monkeypatch.setattr("derender.models.layer.load_models", load)
    monkeypatch.setenv("DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS", variable)
    flags = [f"--default-chat-template-kwargs={each}" for each in arguments]
    assert main(["serve", *flags]) == 0
    ((model, _),) = [models.find(None) for models in loaded]
    assert model.parsers is not None
    assert model.parsers.default_chat_template_kwargs == expected


def test_default_arguments_that_are_no_object_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--default-chat-template-kwargs", "enable_thinking"])
    error = capsys.readouterr().err
    assert "argument --default-chat-template-kwargs: must be a JSON object, or MODEL=OBJECT" in error


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAX_LOGPROBS", "many"),
        ("MAX_LOGPROB", "1"),
        ("LAYER", "/nowhere"),
        ("UPSTREAMS", "http://a"),
        ("RENDER_URL", "http://a"),
    ],
)
def test_a_bad_setting_ends_serve_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"DERENDER_{variable}", value)
    assert main(["serve"]) == 1
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert line.startswith("derender: ")
    assert f"DERENDER_{variable}" in line
    assert out == ""


@pytest.mark.parametrize(
    ("missing", "upstreams"), [("uvicorn", ""), ("httpx", '{"gpu": "http://127.0.0.1:1"}')]
)
def test_serve_says_what_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, missing: str, upstreams: str
) -> None:
    monkeypatch.setenv("DERENDER_UPSTREAMS", upstreams)
    for name in [name for name in sys.modules if name.startswith("derender.relay")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["serve"]) == 1
    line = f"derender: serve needs {missing}; install it with: pip install 'derender[serve]'\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("port", ["x", "-1", "65536", "8_000", ""])
def test_a_bad_port_is_refused(capsys: pytest.CaptureFixture[str], port: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", f"--port={port}"])
    assert f"argument --port: must be a port from 0 to 65535, got {port!r}" in capsys.readouterr().err


def test_derenders_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    response = {"choices": [{"index": 0, "token_ids": [9707, 0]}]}
    body = {"generate_response": response, "chat_request": {}}
    line = {"custom_id": "a", "method": "POST", "url": DERENDER, "body": body}
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    assert main(["batch", str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), "--workers", "1"]) == 0
    assert capsys.readouterr().out == "1 line: 1 answered\n"
    answer = json.loads((tmp_path / "out.jsonl").read_bytes())["response"]["body"]
    assert answer["choices"][0]["message"]["content"] == "Hello!"


def test_estimates_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--rate", "1"]) == 0
    assert "$" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["serve", "batch", "cost", "layer"])
def test_each_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    for arguments in (["--help"], [command, "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        assert command in capsys.readouterr().out


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["derender"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "COMMAND" in capsys.readouterr().err


def test_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert __version__ in capsys.readouterr().out


def test_runs_as_a_module(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["derender", "layer", "inspect", str(default_layer())])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("derender", run_name="__main__")
    assert end.value.code == 0
    assert "Qwen3" in capsys.readouterr().out


def test_ctrl_c_ends_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(derender.cli, "_serve", interrupt)
    assert main(["serve"]) == 130


def test_only_the_given_command_is_imported() -> None:
    program = (
        "import sys, contextlib; from derender.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['serve', '--help'])\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('boto3', 'layer_compiler', 'rich')"
        " or name.startswith(('derender.batch', 'derender.http', 'pricing'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_may_leave_early() -> None:
    command = f"{sys.executable} -m derender layer inspect {default_layer()} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, check=False)  # noqa: S602
    assert done.stderr == ""
