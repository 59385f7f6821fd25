"""Special tokens, added tokens and the response template, as tokenizer_config.json says them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from layer_compiler import LayerError
from layer_compiler.formats import parse_folder
from layer_compiler.model_files.model_config import read_configuration
from tests.layers.builds import build_folder
from tests.support.small_tokenizers import byte_level_tokenizer, id_of, write_folder

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZER: Final = byte_level_tokenizer()


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        pytest.param(None, ["<|end|>", "<|stop|>", "<|pad|>"], id="no configuration: all that are flagged"),
        pytest.param({"eos_token": "<|end|>"}, ["<|end|>"], id="one"),
        pytest.param(
            {"eos_token": "<|end|>", "pad_token": {"content": "<|pad|>"}}, ["<|end|>", "<|pad|>"], id="two"
        ),
        pytest.param(
            {"additional_special_tokens": ["<|stop|>", "<think>"]}, ["<|stop|>", "<think>"], id="a list"
        ),
        pytest.param(
            {"additional_special_tokens": [{"content": "<|stop|>"}]}, ["<|stop|>"], id="a list of objects"
        ),
        pytest.param({"extra_special_tokens": {"image_token": "<|pad|>"}}, ["<|pad|>"], id="names"),
        pytest.param({"extra_special_tokens": ["<|pad|>"]}, ["<|pad|>"], id="another list"),
        pytest.param({"additional_special_tokens": None}, [], id="null"),
        pytest.param({"bos_token": "<|unknown|>", "unk_token": None}, [], id="tokens that don't exist"),
        pytest.param({"model_max_length": 5}, [], id="a configuration that names none"),
    ],
)
def test_special_tokens_are_those_that_the_configuration_names(
    tmp_path: Path, config: dict[str, Any] | None, tokens: list[str]
) -> None:
    configs = {} if config is None else {"tokenizer_config": config}
    model = parse_folder(write_folder(tmp_path, TOKENIZER, **configs))
    expected = sorted(id_of(TOKENIZER, token) for token in tokens)
    assert model.tokenizer.special_token_ids == tuple(expected)


TEMPLATE: Final = {
    "version": 1,
    "defaults": {"role": "assistant"},
    "fields": {"content": {"close": "<|end|>"}, "größe ∞": [None, True, 1.5, 2**63, "\u0000"]},
}


@pytest.mark.parametrize(
    ("config", "template"),
    [
        pytest.param(None, None, id="no configuration"),
        pytest.param({}, None, id="not given"),
        pytest.param({"response_template": None}, None, id="null"),
        pytest.param({"response_template": {}}, {}, id="empty"),
        pytest.param({"response_template": TEMPLATE}, TEMPLATE, id="given"),
        # transformers dropped this earlier format.
        pytest.param({"response_schema": {"type": "object"}}, None, id="a response schema"),
    ],
)
def test_the_response_template_is_copied_unchanged(
    tmp_path: Path, config: dict[str, Any] | None, template: dict[str, Any] | None
) -> None:
    configs = {} if config is None else {"tokenizer_config": config}
    manifest = build_folder(write_folder(tmp_path, TOKENIZER, **configs)).manifest
    assert manifest.response_template == template
    # The order of keys and the types of numbers are kept too.
    assert json.dumps(manifest.response_template) == json.dumps(template)


@pytest.mark.parametrize(
    "template",
    [
        *([], [{}], "{}", "", 0, 5, True, False, 1.5),
        *({"a": float("nan")}, {"a": [float("-inf")]}, {"a": "\ud800"}, {"\ud800": 1}),
    ],
)
def test_a_response_template_that_is_not_a_json_object_is_refused(tmp_path: Path, template: Any) -> None:
    write_folder(tmp_path, None, tokenizer_config={"response_template": template})
    with pytest.raises(LayerError, match=r"tokenizer_config\.json: response_template: "):
        read_configuration(tmp_path)


WRONG: Final[dict[str, list[Any]]] = {
    "added_tokens_decoder": [
        *([], "a", 5, True, [{}], {"a": {}}, {"a": {"content": "<a>"}}),
        *({"9": None}, {"9": "a"}, {"9": 5}, {"9": []}, {"9": ["content"]}),
        *({"9": {"content": None}}, {"9": {"content": 5}}, {"9": {"content": []}}),
        *({"-1": {"content": "a"}}, {"9" * 5000: {"content": "a"}}),
    ],
    "additional_special_tokens": [5, True, 1.5],
    "extra_special_tokens": [5, True, 1.5],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(field, value, id=f"{field}={str(value)[:40]}")
        for field, values in WRONG.items()
        for value in values
    ],
)
def test_a_field_of_a_wrong_type_is_refused_by_name(tmp_path: Path, field: str, value: Any) -> None:
    write_folder(tmp_path, None, tokenizer_config={field: value})
    with pytest.raises(LayerError, match=rf"tokenizer_config\.json: {field}"):
        read_configuration(tmp_path)
