"""Manifests of any content."""

from __future__ import annotations

from hypothesis import strategies as st

from derender.vocabulary import MAX_LENGTH, MAX_SIZE, GenerationPrompt, Manifest
from tests.support.json_mutations import json_values

__all__ = ["manifests"]

ids = st.integers(0, MAX_SIZE - 1)
tuples = st.lists(ids, max_size=3).map(tuple)
manifests = st.builds(
    Manifest,
    name=st.text(max_size=9),
    rule=st.sampled_from(("byte-level", "byte-fallback")),
    size=st.just(0),
    named=ids,
    eos_token_id=st.none() | ids,
    stop_token_ids=tuples,
    special_token_ids=tuples,
    added_token_ids=tuples,
    byte_token_ids=tuples,
    strip_leading_space=st.booleans(),
    max_model_len=st.none() | st.integers(1, MAX_LENGTH),
    tool_call_parser=st.none() | st.text(max_size=9),
    reasoning_parser=st.none() | st.text(max_size=9),
    # Their ids must be the vocabulary's.
    generation_prompts=st.lists(
        st.builds(GenerationPrompt, st.just(()), st.dictionaries(st.text(max_size=6), st.booleans())),
        max_size=3,
    ).map(tuple),
    response_template=st.none() | st.dictionaries(st.text(max_size=6), json_values, max_size=3),
    source=st.text(max_size=9),
    source_format=st.sampled_from(("tokenizer.json", "tekken", "tiktoken", "sentencepiece")),
    source_sha256=st.text(max_size=9),
    source_revision=st.none() | st.text(max_size=9),
    origins=st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3),
    fingerprint=st.text(max_size=9),
    licence=st.none() | st.text(max_size=9),
)
