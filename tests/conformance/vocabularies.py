"""Token ids of the recorded outputs, and the vocabularies that decode them.

Each fixture records the ids that its model wrote. If a tokenizer that can be downloaded decodes them to the
recorded text, they are replayed, so that a marker is a token or text as it was in the output. Newer models
often have an older model's tokenizer with other names for ids that were reserved. The names are given here.
The outputs of other models are encoded with a stand-in: Qwen3's tokenizer with these models' markers as
additional special tokens, or as text if the recorded ids show that (`ORDINARY`). It has `<think>` as a token,
which Magistral-Small-2506 writes as text.

    tokenizer      made from                    models                                        fixtures
    qwen3                                       Qwen3, Qwen3-Coder, Qwen3-Coder-Next                70
    gptoss                                      gpt-oss                                             51
    deepseek_v3                                 DeepSeek V3                                         17
    deepseek_v32   deepseek_v3, 3 renamed       DeepSeek V3.1, V3.2                                 29
    deepseek_v4    deepseek_v3, 11 added        DeepSeek V4, V4.1                                   39
    llama3_3       llama3_1, 3 renamed          Llama 3.3                                           24
    gemma4         gemma3, 12 renamed           Gemma 4                                             48
    stand_in       qwen3, markers added         GLM (51), Kimi (49), Mistral (47),                 191
                                                Qwen3.5 and 3.8 (34), Llama 4 (10)

No recorded output confirms the names of Gemma 4's ids 46, 47, 50, 51, 98, 105 and 106, and of DeepSeek V4's
128821; only the end of a prompt depends on them.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import canitoolcall
import orjson
from canitoolcall.fixtures import load_families, load_fixtures
from tokenizers import Tokenizer

from derender.vocabulary import find_files, load
from fetch import NAMES
from tests.support.compiled import cached_folder, compiled_layer, tokenizer_folder
from tests.support.paths import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from canitoolcall.fixtures import Fixture

    from derender.vocabulary import Vocabulary

__all__ = [
    "FAMILIES",
    "FIXTURES",
    "ORDINARY",
    "STAND_IN",
    "Ids",
    "ids_of",
    "layer",
    "prompt_of",
    "special_ids",
    "tokenizer",
    "tokenizer_of",
    "vocabulary",
]

FIXTURES: Final = tuple(load_fixtures())
FAMILIES: Final = load_families()
MARKERS: Final = frozenset(marker for family in FAMILIES.values() for marker in family.markers)

STAND_IN: Final = "stand_in"
TOKENIZERS: Final = (
    # model, the first that matches: tokenizer
    (r"^Qwen/Qwen3-", "qwen3"),
    (r"/gpt-oss-", "gptoss"),
    (r"/DeepSeek-V3-", "deepseek_v3"),
    (r"/DeepSeek-V3\.[12]", "deepseek_v32"),
    (r"/DeepSeek-V4", "deepseek_v4"),
    (r"/Llama-3", "llama3_3"),
    (r"/gemma-4-", "gemma4"),
    (r"", STAND_IN),
)
PLAIN: Final = frozenset({"<function=", "</function>", "<parameter=", "</parameter>"})
"""Markers that are not tokens."""
ORDINARY: Final = {
    "kimi/k3-control-marker-text-in-value": ("<|close|>argument<|sep|> is how args end",),
    "mistral/v13think-marker-in-arguments": (
        "[TOOL_CALLS] here is just text.",
        'Calls look like [TOOL_CALLS]name[ARGS]{\\"a\\": 1}; thinking is [THINK]...[/THINK].',
    ),
}
"""Fixture → passages of its output whose markers are ordinary text, as the recorded ids show."""


@dataclass(frozen=True)
class Derived:
    """A tokenizer made from a downloaded one."""

    base: str
    tokens: Mapping[int, str]
    """Id → the token's new name. Ids after the base's last are new."""
    named: bool = False
    """Whether the model's configuration names these tokens, so that `skip_special_tokens` leaves them out."""


@dataclass(frozen=True)
class Ids:
    """A fixture's ids."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]


def tokenizer_of(model: str) -> str:
    """Return the name of the tokenizer that a model's fixtures are replayed with."""
    return next(name for pattern, name in TOKENIZERS if re.search(pattern, model))


def prompt_of(fixture: Fixture) -> str:
    """Return the end of the prompt: the fixture's, or its model's usual one."""
    if fixture.generation_prompt is not None:
        return fixture.generation_prompt
    model = FAMILIES[fixture.family].reference_for(fixture.reference_model)
    assert model is not None
    assert model.default_generation_prompt is not None
    return model.default_generation_prompt


@cache
def ids_of(fixture_id: str) -> Ids:
    """Return a fixture's ids in its tokenizer."""
    prompt, output = _encoded()["fixtures"][fixture_id]
    return Ids(tuple(prompt), tuple(output))


@cache
def special_ids(name: str) -> frozenset[int]:
    """Return the ids of a tokenizer's special tokens and markers."""
    return frozenset(_encoded()["special"][name])


@cache
def _encoded() -> dict[str, Any]:
    """Return the ids of all fixtures. They are kept between runs, because tokenizers take seconds to load."""
    names = {tokenizer_of(fixture.reference_model) for fixture in FIXTURES}
    package = Path(canitoolcall.__path__[0])
    sources = [Path(__file__), *(folder(name) / "tokenizer.json" for name in names), *package.rglob("*.json*")]

    def make(target: Path) -> None:
        target.mkdir()
        ids = {
            "fixtures": {fixture.id: _encode_fixture(fixture) for fixture in FIXTURES},
            "special": {name: _special_ids(name) for name in names},
        }
        (target / "ids.json").write_bytes(orjson.dumps(ids))

    encoded: dict[str, Any] = orjson.loads(
        (cached_folder(CACHE / "conformance_ids", sources, make) / "ids.json").read_bytes()
    )
    return encoded


def _encode_fixture(fixture: Fixture) -> tuple[list[int], list[int]]:
    name = tokenizer_of(fixture.reference_model)
    prompt: list[int] = tokenizer(name).encode(prompt_of(fixture), add_special_tokens=False).ids
    if name != STAND_IN:
        assert fixture.output_token_ids is not None
        return prompt, list(fixture.output_token_ids)
    return prompt, list(_encode(fixture.raw_output, ORDINARY.get(fixture.id, ())))


def _special_ids(name: str) -> list[int]:
    added = tokenizer(name).get_added_tokens_decoder().items()
    return [token_id for token_id, token in added if token.special or token.content in MARKERS]


@cache
def vocabulary(name: str) -> Vocabulary:
    """Load a tokenizer's compiled vocabulary."""
    (path,) = find_files(layer(name))
    return load(path)


@cache
def layer(name: str) -> Path:
    """Compile a layer from a tokenizer."""
    return compiled_layer(folder(name), name)


@cache
def tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer to encode with."""
    return Tokenizer.from_file(str(folder(name) / "tokenizer.json"))


@cache
def folder(name: str) -> Path:
    """Return a tokenizer's folder: downloaded, or made from a downloaded one."""
    if name in NAMES:
        return tokenizer_folder(name)
    derived = _derived()[name]
    base = tokenizer_folder(derived.base)
    return cached_folder(
        CACHE / "derived" / name,
        [*base.iterdir(), Path(__file__)],
        lambda target: _write(derived, base, target),
    )


def _derived() -> dict[str, Derived]:
    reserved = {token_id: f"<\uff5creserved\u2581{token_id}\uff5c>" for token_id in range(128815, 128826)}
    return {
        "deepseek_v32": Derived(
            "deepseek_v3", {128793: "\uff5cDSML\uff5c", 128798: "<think>", 128799: "</think>"}
        ),
        "deepseek_v4": Derived(
            "deepseek_v3", {**reserved, 128821: "<think>", 128822: "</think>", 128825: "\uff5cDSML\uff5c"}
        ),
        "llama3_3": Derived(
            "llama3_1", {128004: "<|finetune_right_pad_id|>", 128008: "<|eom_id|>", 128010: "<|python_tag|>"}
        ),
        "gemma4": Derived(
            "gemma3",
            {
                46: "<|tool>",
                47: "<tool|>",
                48: "<|tool_call>",
                49: "<tool_call|>",
                50: "<|tool_response>",
                51: "<tool_response|>",
                52: '<|"|>',
                98: "<|think|>",
                100: "<|channel>",
                101: "<channel|>",
                105: "<|turn>",
                106: "<turn|>",
            },
            named=True,
        ),
        STAND_IN: Derived("qwen3", dict(_stand_in_markers()), named=True),
    }


def _stand_in_markers() -> Iterator[tuple[int, str]]:
    """Yield the markers of all families that it stands in for, with ids after Qwen3's own."""
    own = Tokenizer.from_file(str(folder("qwen3") / "tokenizer.json"))
    families = {each.family for each in FIXTURES if tokenizer_of(each.reference_model) == STAND_IN}
    markers = {marker for family in families for marker in FAMILIES[family].markers} - PLAIN
    new = (marker for marker in sorted(markers) if own.token_to_id(marker) is None)
    return enumerate(new, own.get_vocab_size(with_added_tokens=True))


def _write(derived: Derived, base: Path, target: Path) -> None:
    shutil.copytree(base, target)
    definition = _read(base / "tokenizer.json")
    config = _read(base / "tokenizer_config.json")
    # Normalization would change what the model wrote; a real output has been through it.
    definition["normalizer"] = None if derived.base == "qwen3" else definition["normalizer"]
    # It repeats what tokenizer.json has, by the old names.
    config.pop("added_tokens_decoder", None)
    # The base's prompts end differently.
    config.pop("chat_template", None)
    added = {token["id"]: token for token in definition["added_tokens"]}
    named = {token_id: token for token, token_id in definition["model"]["vocab"].items()}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for token_id, name in derived.tokens.items():
        added[token_id] = {"id": token_id, "content": name, **flags, "special": True}
        if token_id in named:
            named[token_id] = name
    definition["added_tokens"] = [added[token_id] for token_id in sorted(added)]
    definition["model"]["vocab"] = {token: token_id for token_id, token in named.items()}
    if derived.named:
        further = config.get("additional_special_tokens") or []
        config["additional_special_tokens"] = [*further, *derived.tokens.values()]
    for name, content in (("tokenizer.json", definition), ("tokenizer_config.json", config)):
        (target / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def _encode(text: str, ordinary: Sequence[str]) -> Iterator[int]:
    """Encode a text with the stand-in. In ordinary passages, markers are text."""
    encoder = tokenizer(STAND_IN)
    for passage in ordinary:
        assert text.count(passage) == 1
    pattern = "|".join(map(re.escape, ordinary)) or "(?!)"
    for part in re.split(f"({pattern})", text):
        encoder.encode_special_tokens = part in ordinary
        yield from encoder.encode(part, add_special_tokens=False).ids
    encoder.encode_special_tokens = False
