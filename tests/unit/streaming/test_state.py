"""Sealed states: size, version, model and endpoint, and signature."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from derender.decoding.output import OutputState
from derender.decoding.state import DetokenizerState
from derender.models.layer import load_models
from derender.models.model import StateSeal
from derender.parsing import ParserState
from derender.settings import PerModel, Settings, SettingsError
from derender.streaming import seal as seal_module
from derender.streaming.state import ChoiceState, GenerationState
from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.json_mutations import json_values, mutated
from tests.support.models import served
from tests.support.vocabularies import B

from .support import CALL, TOOLS, Local, chunk, ids, parsing

if TYPE_CHECKING:
    from derender.models.model import ServedModel
    from derender.vocabulary import Vocabulary

REQUEST: Final[dict[str, Any]] = {
    "stream": True,
    "chat_request": {"tools": TOOLS, "stop": ["zz"], "min_tokens": 2},
    "prompt_token_ids": [5],
}
KEY, OLD, OTHER = b"0123456789abcdef", b"an older and longer key", b"somebody else's key"


@pytest.fixture(scope="module")
def model() -> ServedModel:
    """Return a model of bytes and markers, with parsers."""
    return parsing()


def keyed(model: ServedModel, *keys: bytes) -> ServedModel:
    """Return the model with other keys."""
    return dataclasses.replace(model, seal=dataclasses.replace(model.seal, keys=keys))


def begun(model: ServedModel, output: str = "<think>hm</think>Hi z<tool_call>") -> Any:
    """Return the state after some output."""
    status, answer = Local(model).post(CHAT, {**REQUEST, "generate_chunk": chunk(ids(model, output))})
    assert status == 200, answer
    return answer["stream_state"]


def go_on(model: ServedModel, state: object, path: str = CHAT) -> tuple[int, Any]:
    """Send another chunk and return the status and the answer."""
    return Local(model).post(path, {**REQUEST, "generate_chunk": chunk(ids(model, "x")), "stream_state": state})


def content_of(state: dict[str, Any]) -> list[Any]:
    """Return the content of a state."""
    data = base64.b64decode(state["data"])
    content: list[Any] = msgspec.msgpack.decode(zlib.decompress(data[1:]) if data[0] else data[1:])
    return content


def sealed(state: dict[str, Any], content: object) -> dict[str, Any]:
    """Return the state with other content, unsigned."""
    try:
        packed = msgspec.msgpack.encode(content)
    except (OverflowError, TypeError, UnicodeError, RecursionError):
        reject()
    data = base64.b64encode(b"\0" + packed).decode()
    return {**state, "data": data, "signature": None}


def test_a_state_continues_its_stream(model: ServedModel) -> None:
    for each in (model, keyed(model, KEY)):
        assert go_on(each, begun(each))[0] == 200


@pytest.mark.parametrize("version", [0, 1, -1, 10**30])
def test_a_state_of_another_version_is_refused(model: ServedModel, version: int) -> None:
    status, message = go_on(model, {**begun(model), "version": version})
    assert status == 400
    assert f"version {version}, expected 9" in message


def test_a_version_is_shown_in_short(model: ServedModel) -> None:
    status, message = go_on(model, {**begun(model), "version": 10**4000})
    assert status == 400
    assert len(message) < 200


def test_a_state_of_another_model_or_endpoint_is_refused(model: ServedModel) -> None:
    other = dataclasses.replace(model, seal=dataclasses.replace(model.seal, model=1))
    for status, message in (go_on(other, begun(model)), go_on(model, begun(model), COMPLETIONS)):
        assert status == 400
        assert "another model" in message


def test_models_served_differently_have_different_seals() -> None:
    settings = Settings.from_environment({})
    ways = [
        settings,
        dataclasses.replace(settings, tool_call_deltas="complete"),
        dataclasses.replace(settings, tool_call_parser=PerModel("none")),
        dataclasses.replace(settings, reasoning_parser=PerModel("deepseek_r1")),
    ]
    assert len({load_models(each).find(None).model.seal.model for each in ways}) == len(ways)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data[:-4], id="truncated"),
        pytest.param(lambda data: data[:-1], id="truncated by one"),
        pytest.param(lambda data: data + "AAAA", id="longer"),
        pytest.param(lambda data: data + data, id="doubled"),
        pytest.param(lambda _: "", id="empty"),
        pytest.param(lambda _: "AAAA", id="nothing in it"),
        pytest.param(lambda _: "Aw==", id="an unknown form"),
        pytest.param(lambda data: f"{data[:8]}*{data[9:]}", id="no base64"),
        pytest.param(lambda data: f"{data[:8]}é{data[9:]}", id="no ASCII"),
        pytest.param(lambda data: f"{data[:8]} {data[8:]}", id="a space in it"),
        pytest.param(lambda _: base64.b64encode(b"\1" + zlib.compress(b"x" * 10**8)).decode(), id="a bomb"),
        pytest.param(lambda _: "A" * (seal_module.MAX_DATA + 4), id="oversized"),
        pytest.param(lambda _: base64.b64encode(b"\0" + b"\x91" * 10**5 + b"\xc0").decode(), id="deep"),
    ],
)
def test_a_damaged_state_is_refused(model: ServedModel, change: Any) -> None:
    state = begun(model)
    for each, sent in ((model, state), (keyed(model, KEY), begun(keyed(model, KEY)))):
        status, message = go_on(each, {**sent, "data": change(sent["data"])})
        assert status == 400
        assert message.startswith("stream_state")


@pytest.mark.parametrize(
    "state", ["text", 5, [], True, {}, {"version": 1}, {"data": ""}, {"version": "1", "data": ""}]
)
def test_anything_but_a_state_is_refused(model: ServedModel, state: object) -> None:
    status, message = go_on(model, state)
    assert status == 400
    assert "stream_state" in message


# --- authentication -------------------------------------------------------------------------------------------


def test_a_forged_state_is_refused_if_there_is_a_key(model: ServedModel) -> None:
    secured = keyed(model, KEY)
    state = begun(secured)
    forged = [
        {**state, "signature": None},
        {name: value for name, value in state.items() if name != "signature"},
        {**state, "signature": ""},
        {**state, "signature": "é" * 64},
        {**state, "signature": state["signature"][:-1]},
        {**state, "signature": state["signature"].upper()},
        {**state, "signature": begun(keyed(model, OTHER))["signature"]},
        {**begun(model, "other"), "signature": state["signature"]},
        begun(model),
    ]
    for each in forged:
        status, message = go_on(secured, each)
        assert status == 400
        assert "signature" in message


def test_every_bit_of_a_signed_state_counts(model: ServedModel) -> None:
    secured = keyed(model, KEY)
    state = begun(secured)
    for place, character in enumerate(state["data"]):
        other = "A" if character != "A" else "B"
        changed = f"{state['data'][:place]}{other}{state['data'][place + 1 :]}"
        assert go_on(secured, {**state, "data": changed})[0] == 400


def test_keys_can_be_rotated_during_streams(model: ServedModel) -> None:
    changed = keyed(model, KEY, OLD)
    assert go_on(changed, begun(keyed(model, OLD)))[0] == 200
    assert go_on(keyed(model, KEY), begun(changed))[0] == 200
    assert go_on(keyed(model, OLD), begun(changed))[0] == 400
    # A function without keys does not ask.
    assert go_on(model, begun(changed))[0] == 200


def test_keys_are_read_from_the_settings() -> None:
    settings = Settings.from_environment({"DERENDER_STATE_KEY": f" {KEY.decode()} , {OLD.decode()},"})
    assert settings.state_key == (KEY.decode(), OLD.decode())
    assert KEY.decode() not in repr(settings)
    assert load_models(settings).find(None).model.seal.keys == (KEY, OLD)
    with pytest.raises(SettingsError, match=r"DERENDER_STATE_KEY.*16") as raised:
        Settings.from_environment({"DERENDER_STATE_KEY": "short"})
    assert "short" not in str(raised.value).replace("shorter", "")


# --- whatever is in it ----------------------------------------------------------------------------------------


@given(data=st.data())
def test_a_made_up_state_is_refused_or_continued(model: ServedModel, data: st.DataObject) -> None:
    """Without a key, a client may send any state. It gets an answer or a 400."""
    output = data.draw(
        st.sampled_from(["Hi z", "<think>hm", CALL[:40], f"{CALL}\n{CALL[:50]}", "a <tool_", "\n "])
    )
    state = begun(model, output)
    changed = sealed(state, data.draw(mutated(content_of(state))))
    status, answer = go_on(model, changed)
    assert status in (200, 400), answer
    if status == 200:
        last = {"generate_chunk": chunk([], "length"), "stream_state": answer["stream_state"]}
        assert Local(model).post(CHAT, {**REQUEST, **last})[0] == 200


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda choice: choice.pop("parsing"), id="no parser's state"),
        pytest.param(lambda choice: choice["output"].update(held_token=10**6), id="an unknown id"),
        pytest.param(lambda choice: choice["output"].update(held=[1]), id="an id that is not a marker"),
    ],
)
def test_a_state_that_does_not_fit_the_model_is_refused(model: ServedModel, change: Any) -> None:
    state = begun(model)
    content = content_of(state)
    change(content[-1][0][1])
    status, message = go_on(model, sealed(state, content))
    assert (status, message) == (400, "stream_state is damaged; send it back unchanged")


@given(
    fields=st.dictionaries(st.sampled_from(ChoiceState.__struct_fields__), json_values),
    output=st.dictionaries(st.sampled_from(OutputState.__struct_fields__), json_values),
)
def test_made_up_fields_are_refused_or_continued(
    bytes_vocabulary: Vocabulary, fields: dict[str, Any], output: dict[str, Any]
) -> None:
    model = served(bytes_vocabulary)
    _, answer = Local(model).post(COMPLETIONS, {"stream": True, "generate_chunk": chunk([0xC3])})
    content = content_of(answer["stream_state"])
    content[-1][0][1]["output"] |= output
    content[-1][0][1] |= fields
    state = sealed(answer["stream_state"], content)
    body = {
        "stream": True,
        "generate_chunk": chunk([0xA9, B.HELLO], logprobs={"content": []}),
        "stream_state": state,
        "completion_request": {"stop": ["Hello!"], "min_tokens": 1},
    }
    status, answer = Local(model).post(COMPLETIONS, body)
    assert status in (200, 400), answer


# --- its size and form ----------------------------------------------------------------------------------------


def test_the_state_of_a_long_stream_stays_small(model: ServedModel) -> None:
    local, secured = Local(keyed(model, KEY)), keyed(model, KEY)
    outputs = ["<think>hm</think>Hi " + "word " * 300, CALL.replace("Zürich", "Zürich " * 40) * 6]
    request_id = "r" * 256
    for output in outputs:
        state, token_ids = None, ids(secured, output)
        for begin in range(0, len(token_ids), 20):
            sent = {**chunk(token_ids[begin : begin + 20]), "request_id": request_id}
            _, answer = local.post(CHAT, {**REQUEST, "generate_chunk": sent, "stream_state": state})
            state = answer["stream_state"]
            assert len(json.dumps(state)) < 2048


def test_a_long_held_call_is_compressed_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = parsing("complete")
    state = begun(kept, CALL.replace("Zürich", "Zürich " * 450)[:3600])
    assert len(state["data"]) < 1000
    assert go_on(kept, state)[0] == 200
    monkeypatch.setattr(seal_module, "MAX_DATA", 100)
    status, message = Local(kept).post(CHAT, {**REQUEST, "generate_chunk": chunk(ids(kept, CALL[:60]))})
    assert status == 400
    assert "DERENDER_TOOL_CALL_DELTAS" in message


def test_the_fields_of_states_belong_to_their_version() -> None:
    """If this fails, the fields of a state have changed: increase `VERSION` and put the checksum here."""
    forms = [
        msgspec.json.encode(without_descriptions(msgspec.json.schema(each)), order="sorted")
        for each in (GenerationState, OutputState, DetokenizerState, ParserState)
    ]
    assert (seal_module.VERSION, zlib.crc32(b"".join(forms))) == (9, 4_111_001_718)


def without_descriptions(schema: Any) -> Any:
    """A schema that docstrings don't change."""
    if isinstance(schema, dict):
        return {name: without_descriptions(each) for name, each in schema.items() if name != "description"}
    return [without_descriptions(each) for each in schema] if isinstance(schema, list) else schema


def test_a_seal_has_no_keys_by_default() -> None:
    assert StateSeal(model=1, size=2).keys == ()
