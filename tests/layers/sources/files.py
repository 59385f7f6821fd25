"""Files of a model's folder, read and unread."""

from __future__ import annotations

from typing import Final

__all__ = ["FILES", "READ", "UNREAD"]

READ: Final = (
    *("tokenizer.json", "tokenizer_config.json", "config.json", "tekken.json"),
    *("added_tokens.json", "generation_config.json", "params.json"),
    *("chat_template.jinja", "chat_template.json", "additional_chat_templates/tool_use.jinja"),
    *("tekken_240911.json", "qwen.tiktoken", "tiktoken.model", "tokenizer.model", "spiece.model"),
    *(f"tokenizer.model.{version}" for version in ("v1", "v2", "v3", "v7", "v11", "v7m1")),
    *(f"mistral_instruct_tokenizer_240216.model.{version}" for version in ("v2", "v3", "v7", "v7m1")),
)
"""Names of files that the formats and the inference of parsers read."""
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
