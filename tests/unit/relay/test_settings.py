"""Upstreams as an operator writes them in the settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from derender.relay import Server, Upstream, read_relay_settings
from derender.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.relay import RelaySettings


def read(environment: Mapping[str, str]) -> RelaySettings | None:
    return read_relay_settings(Settings.from_environment(environment), environment)


def only_line(error: pytest.ExceptionInfo[SettingsError]) -> str:
    (line,) = str(error.value).splitlines()
    return line


def test_there_is_no_relay_by_default() -> None:
    assert read({}) is None


def test_upstreams_are_named_and_the_first_is_the_default() -> None:
    environment = {
        "DERENDER_UPSTREAMS": """{
            "gpu/a": "http://10.0.0.1:8000/",
            "b": {
                "url": "https://example.com/b/",
                "headers": {"Authorization": "Bearer ${GPU_TOKEN}", "X": "literal secret"}
            }
        }""",
        "DERENDER_RENDER_URL": '{"url": "http://[::1]:8001", "headers": {"X": "literal secret"}}',
        "DERENDER_UPSTREAM_TIMEOUT": "7.5",
        "DERENDER_UPSTREAM_CONNECT_TIMEOUT": "2",
        "GPU_TOKEN": "secret ",
    }
    relay = read(environment)
    assert relay is not None
    first, second = relay.upstreams
    assert (first.name, first.url, first.headers) == ("gpu/a", "http://10.0.0.1:8000", ())
    assert (second.name, second.url) == ("b", "https://example.com/b")
    assert second.headers == (("Authorization", "Bearer secret"), ("X", "literal secret"))
    assert relay.render is not None
    assert relay.render.url == "http://[::1]:8001"
    assert (relay.timeout, relay.connect_timeout) == (7.5, 2)
    assert relay.find_upstream(None, "any") == first
    assert relay.find_upstream("b", "any") == second
    assert "secret" not in repr((Settings.from_environment(environment), relay))


def test_timeouts_of_upstreams_have_defaults() -> None:
    relay = read({"DERENDER_UPSTREAMS": '{"a": "http://a"}'})
    assert relay is not None
    assert (relay.timeout, relay.connect_timeout) == (120, 5)


def test_a_render_service_may_have_headers() -> None:
    environment = {
        "DERENDER_UPSTREAMS": '{"a": "http://a"}',
        "DERENDER_RENDER_URL": '{"url": "http://r", "headers": {"x-key": "${KEY}", "x-empty": ""}}',
        "KEY": "k",
    }
    relay = read(environment)
    assert relay is not None
    assert relay.render == Server("render", "http://r", (("x-key", "k"), ("x-empty", "")))


def test_an_upstream_may_have_a_model_and_a_render_service() -> None:
    environment = {
        "DERENDER_UPSTREAMS": """{
            "a": {
                "url": "http://a", "model": "alpha", "served_model_name": "org/alpha",
                "render": {
                    "url": "http://r/", "headers": {"x-key": "${KEY}"}, "served_model_name": "/models/alpha"
                }
            },
            "b": {"url": "http://b", "render": "http://s"},
            "c": "http://c"
        }""",
        "DERENDER_RENDER_URL": '{"url": "http://t", "served_model_name": "all"}',
        "KEY": "k",
    }
    relay = read(environment)
    assert relay is not None
    default = Server("render", "http://t", served_model_name="all")
    own = Server("a/render", "http://r", (("x-key", "k"),), "/models/alpha")
    assert relay.upstreams == (
        Upstream("a", "http://a", served_model_name="org/alpha", model="alpha", render=own),
        Upstream("b", "http://b", render=Server("b/render", "http://s")),
        Upstream("c", "http://c"),
    )
    assert [relay.find_render(each).url for each in relay.upstreams] == ["http://r", "http://s", default.url]
    assert relay.render == default


@pytest.mark.parametrize(
    ("upstreams", "problem"),
    [
        ("x", "JSON object"),
        ("[]", "JSON object"),
        ("null", "JSON object"),
        ("[" * 100_000, "JSON object"),
        ("{}", "at least one upstream"),
        ('{"": "http://a"}', "not a valid name"),
        ('{"a b": "http://a"}', "not a valid name"),
        ('{"a": "http://a", "a": "http://b"}', "twice"),
        ('{"a": 1}', "a: must be a URL"),
        ('{"a": {}}', "a: the URL must be"),
        (
            '{"a": {"url": "http://a", "header": {}}}',
            "only have url, headers, served_model_name, model, render and transfer_params, each once",
        ),
        ('{"a": {"url": "http://a", "url": "http://b"}}', "each once"),
        ('{"a": {"url": "http://a", "model": 1}}', "a: the name of a model must be"),
        ('{"a": {"url": "http://a", "transfer_params": 1}}', "a: transfer_params must be true or false"),
        ('{"a": {"url": "http://a", "served_model_name": ""}}', "a: the name of a model must be"),
        (
            '{"a": {"url": "http://a", "render": 1}}',
            "a: render: must be a URL, or an object of url",
        ),
        ('{"a": {"url": "http://a", "render": {"model": "x"}}}', "a: render: the object may only have"),
        ('{"a": {"url": "http://a", "render": {}}}', "a: render: the URL must be"),
        ('{"a": {"url": "http://a", "headers": []}}', "object of strings"),
        ('{"a": {"url": "http://a", "headers": {"x": 1}}}', "object of strings"),
        ('{"a": {"url": "http://a", "headers": {"x y": "1"}}}', "not a valid header name"),
        (
            '{"a": {"url": "http://a", "headers": {"Content-Length": "1"}}}',
            "sets the header Content-Length itself",
        ),
        ('{"a": {"url": "http://a", "headers": {"x": "${NOT_THERE}"}}}', "NOT_THERE"),
        ('{"a": {"url": "http://a", "headers": {"x": "${EMPTY}"}}}', "EMPTY"),
        ('{"a": {"url": "http://a", "headers": {"x": "${LINES}"}}}', "printable"),
        ('{"a": {"url": "http://a", "headers": {"x": "secret\\n"}}}', "printable"),
    ],
)
def test_a_bad_upstream_is_one_line_without_secrets(upstreams: str, problem: str) -> None:
    environment = {"EMPTY": "", "LINES": "secret\nsecret", "DERENDER_UPSTREAMS": upstreams}
    with pytest.raises(SettingsError) as error:
        read(environment)
    text = only_line(error)
    assert text.startswith("DERENDER_UPSTREAMS: ")
    assert problem in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        *(
            (url, "must be http://HOST or https://HOST")
            for url in (
                *("a", "a:8000", "//a", "http://", "http:///a", "http://:80", "ftp://a", "file:///a"),
                *("http://a:x", "http://a:99999", "http://a:0", "http://[::1", "http://a b", "http://ä"),
                *("http://${HOST}", "http://a\\b", "http://a%2fb"),
            )
        ),
        *(
            (url, "no credentials, query or fragment")
            for url in ("http://user:pass@a", "http://@a", "http://a?key=1", "http://a#key", "http://a?")
        ),
    ],
)
@pytest.mark.parametrize("kind", ["url", "object", "render", "render object"])
def test_a_bad_url_is_one_line_without_it(url: str, problem: str, kind: str) -> None:
    value: object = {"url": url} if "object" in kind else url
    environment = {"DERENDER_UPSTREAMS": json.dumps({"a": "http://a" if "render" in kind else value})}
    if "render" in kind:
        environment["DERENDER_RENDER_URL"] = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(SettingsError) as error:
        read(environment)
    text = only_line(error)
    assert text.startswith("DERENDER_RENDER_URL: " if "render" in kind else "DERENDER_UPSTREAMS: a: ")
    assert problem in text
    assert "pass" not in text
    assert "key" not in text


def test_a_render_service_needs_an_upstream() -> None:
    with pytest.raises(SettingsError, match="DERENDER_RENDER_URL needs DERENDER_UPSTREAMS"):
        read({"DERENDER_RENDER_URL": "http://a"})
