"""The files of a model, and others beside them that are not read."""

from __future__ import annotations

from typing import Final

__all__ = ["FILES", "UNREAD"]

FILES: Final = {
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"a": 1}',
    "config.json": b'{"b": 2}',
    "tekken.json": b"[]",
    "mistral_instruct_tokenizer_241114.model.v7m1": b"model",
    "additional_chat_templates/tool_use.jinja": b"template",
}
UNREAD: Final = {
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"weights",
    "tokenization_model.py": b"code",
    "README.md": b"text",
    "original/tokenizer.model": b"another",
    "onnx/config.json": b"another",
    "original/tokenizer.model.v3": b"another",
    "additional_chat_templates/old/tool_use.jinja": b"another",
    "additional_chat_templates/tool_use.py": b"code",
    "additional_chat_templates/config.json": b"another",
}
