"""Stop ids, the number of ids and the longest sequence, as the configuration files say them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from layer_compiler import LayerError
from layer_compiler.formats import parse_folder
from layer_compiler.model_files.model_config import read_configuration
from tests.support.small_tokenizers import byte_level_tokenizer, id_of, write_folder

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZER: Final = byte_level_tokenizer()
END, STOP, PAD = (id_of(TOKENIZER, token) for token in ("<|end|>", "<|stop|>", "<|pad|>"))
NAMED: Final = TOKENIZER.get_vocab_size()


@pytest.mark.parametrize(
    ("configs", "eos", "stops"),
    [
        pytest.param({}, None, (), id="no configuration"),
        pytest.param({"tokenizer_config": {"eos_token": "<|end|>"}}, END, (END,), id="a string"),
        pytest.param({"tokenizer_config": {"eos_token": {"content": "<|end|>"}}}, END, (END,), id="an object"),
        pytest.param({"tokenizer_config": {"eos_token": None}}, None, (), id="null"),
        pytest.param({"tokenizer_config": {"eos_token": "<|unknown|>"}}, None, (), id="an unknown token"),
        pytest.param({"generation_config": {"eos_token_id": STOP}}, None, (STOP,), id="one stop id"),
        pytest.param({"generation_config": {"eos_token_id": [STOP, END]}}, None, (END, STOP), id="stop ids"),
        pytest.param({"generation_config": {"eos_token_id": None}}, None, (), id="a null stop id"),
        pytest.param({"config": {"eos_token_id": STOP}}, None, (STOP,), id="config.json"),
        pytest.param(
            {"generation_config": {"eos_token_id": PAD}, "config": {"eos_token_id": STOP}},
            None,
            (PAD,),
            id="both files",
        ),
        pytest.param(
            {"generation_config": {"temperature": 0.6}, "config": {"eos_token_id": STOP}},
            None,
            (),
            id="a generation_config.json without stop ids",
        ),
        pytest.param(
            {"config": {"text_config": {"eos_token_id": STOP}}}, None, (STOP,), id="the language model"
        ),
        pytest.param(
            {"tokenizer_config": {"eos_token": "<|end|>"}, "generation_config": {"eos_token_id": [STOP, STOP]}},
            END,
            (END, STOP),
            id="the tokenizer's is added",
        ),
    ],
)
def test_stop_ids_come_from_the_generation_configuration_and_the_tokenizer(
    tmp_path: Path, configs: dict[str, Any], eos: int | None, stops: tuple[int, ...]
) -> None:
    model = parse_folder(write_folder(tmp_path, TOKENIZER, **configs))
    assert model.tokenizer.eos_token_id == eos
    assert model.stop_token_ids == tuple(sorted(stops))


@pytest.mark.parametrize(
    ("config", "size"),
    [
        pytest.param({}, NAMED, id="unset"),
        pytest.param({"vocab_size": NAMED + 5}, NAMED + 5, id="padded"),
        pytest.param({"vocab_size": NAMED}, NAMED, id="exact"),
        pytest.param({"vocab_size": 3}, NAMED, id="fewer rows than tokens"),
        pytest.param({"text_config": {"vocab_size": NAMED + 5}}, NAMED + 5, id="the language model's"),
        pytest.param({"vocab_size": None}, NAMED, id="null"),
    ],
)
def test_there_is_an_id_for_each_row_of_the_embedding_table(
    tmp_path: Path, config: dict[str, Any], size: int
) -> None:
    model = parse_folder(write_folder(tmp_path, TOKENIZER, config=config))
    assert (len(model.pieces), model.tokenizer.named) == (size, NAMED)
    assert model.pieces[NAMED:] == [b""] * (size - NAMED)


@pytest.mark.parametrize(
    ("configs", "length"),
    [
        ({}, None),
        ({"config": {"max_position_embeddings": 4096}}, 4096),
        ({"tokenizer_config": {"model_max_length": 2048}}, 2048),
        ({"config": {"max_position_embeddings": 4096}, "tokenizer_config": {"model_max_length": 2048}}, 2048),
        ({"config": {"max_position_embeddings": 1024}, "tokenizer_config": {"model_max_length": 2048}}, 1024),
        ({"tokenizer_config": {"model_max_length": 10**30}}, None),
        ({"tokenizer_config": {"model_max_length": 1e30}}, None),
        ({"config": {"text_config": {"max_position_embeddings": 512}}}, 512),
        ({"config": {"max_position_embeddings": 0}}, None),
        ({"config": {"max_position_embeddings": None}}, None),
        ({"config": {"n_positions": 1024, "max_position_embeddings": 2048}}, 1024),
        ({"config": {"seq_length": 1024}}, 1024),
        ({"config": {"model_max_length": 8192, "max_position_embeddings": 2048}}, 8192),
        ({"params": {"max_seq_len": 4096, "max_position_embeddings": 128_000}}, 4096),
        ({"params": {"max_seq_len": 4096}, "config": {"max_position_embeddings": 2048}}, 2048),
    ],
)
def test_the_longest_sequence_is_the_least_length_that_is_given(
    tmp_path: Path, configs: dict[str, Any], length: int | None
) -> None:
    assert read_configuration(write_folder(tmp_path, None, **configs)).max_model_len == length


YARN: Final = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 65_536),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, 65_536),
        ({"rope_scaling": YARN}, 32_768),
        ({"rope_parameters": YARN}, 32_768),
        ({"rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_type": "default"}}}, 32_768),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 32_768}}, 131_072),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 32_768),
        ({"rope_scaling": {"type": "longrope", "factor": 32.0}}, 32_768),
        ({"rope_scaling": {"rope_type": "default"}}, 32_768),
        ({"rope_scaling": None}, 32_768),
        ({"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "model_type": "gemma3_text"}, 32_768),
        ({"text_config": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}}, 65_536),
        ({"rope_scaling": {"rope_type": "linear", "factor": 1e30}}, None),
        ({"rope_scaling": {"rope_type": "linear", "factor": -3.0}}, 32_768),
    ],
)
def test_the_longest_sequence_is_scaled_as_the_rotary_embedding_is(
    tmp_path: Path, config: dict[str, Any], length: int | None
) -> None:
    folder = write_folder(tmp_path, None, config={"max_position_embeddings": 32_768, **config})
    assert read_configuration(folder).max_model_len == length


def test_mistrals_yarn_scales_the_longest_sequence(tmp_path: Path) -> None:
    yarn = {"factor": 16, "original_max_position_embeddings": 16_384}
    configuration = read_configuration(write_folder(tmp_path, None, params={"max_seq_len": 1000, "yarn": yarn}))
    assert configuration.max_model_len == 16 * 16_384


def test_the_tokenizers_length_is_the_maximum(tmp_path: Path) -> None:
    configs = {
        "config": {"max_position_embeddings": 32_768, "rope_scaling": YARN},
        "tokenizer_config": {"model_max_length": 10_000},
    }
    configuration = read_configuration(write_folder(tmp_path, None, **configs))
    assert configuration.max_model_len == 10_000
    assert configuration.origins["max_model_len"] == "tokenizer_config.json: model_max_length"


def test_each_value_has_the_file_and_field_that_gave_it(tmp_path: Path) -> None:
    configs: dict[str, Any] = {
        "tokenizer_config": {"eos_token": "<|end|>", "response_template": {}},
        "generation_config": {"eos_token_id": [STOP]},
        "config": {"vocab_size": 600, "max_position_embeddings": 2048, "rope_scaling": YARN},
    }
    assert parse_folder(write_folder(tmp_path, TOKENIZER, **configs)).origins == {
        "eos_token_id": "tokenizer_config.json: eos_token",
        "max_model_len": "config.json: max_position_embeddings, scaled",
        "response_template": "tokenizer_config.json: response_template",
        "size": "config.json: vocab_size",
        "special_token_ids": "tokenizer_config.json: the tokens it names",
        "stop_token_ids": "generation_config.json: eos_token_id; tokenizer_config.json: eos_token",
    }


def test_without_configuration_files_the_tokenizer_gave_each_value(tmp_path: Path) -> None:
    model = parse_folder(write_folder(tmp_path, TOKENIZER))
    assert model.origins == {
        "size": "tokenizer.json",
        "special_token_ids": "tokenizer.json: added_tokens flagged special",
    }
    assert [warning.partition(":")[0] for warning in model.warnings] == [
        "no vocab_size in config.json",
        "no eos_token_id in a configuration file",
        "no tokenizer_config.json",
    ]


WRONG: Final[dict[tuple[str, str], list[Any]]] = {
    ("generation_config", "eos_token_id"): [
        *("2", {}, {"a": 1}, ["2"], [None, 1], [[1]], 1.5, -1, [-1], [1, "2"], [{}]),
    ],
    ("config", "eos_token_id"): ["2", {"a": 1}, [[]], -1],
    ("config", "vocab_size"): ["2", 0, -1, 1.5, 10**12],
    ("config", "rope_scaling"): [5, [], "yarn", {"factor": "x"}, {"type": 5}],
    ("config", "max_position_embeddings"): ["x", [], {}, 10**400],
}


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        pytest.param(file, field, value, id=f"{field}={str(value)[:40]}")
        for (file, field), values in WRONG.items()
        for value in values
    ],
)
def test_a_field_of_a_wrong_type_is_refused_by_name(tmp_path: Path, file: str, field: str, value: Any) -> None:
    write_folder(tmp_path, None, **{file: {field: value}})
    with pytest.raises(LayerError, match=rf"{file}\.json: {field}"):
        read_configuration(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_a_length_that_is_no_limit_is_ignored(tmp_path: Path, value: float) -> None:
    folder = write_folder(tmp_path, None, config={"max_position_embeddings": value})
    assert read_configuration(folder).max_model_len is None
