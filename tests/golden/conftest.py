"""Clients of applications with the peer's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .recorded import PARSERS, TOKENIZERS

if TYPE_CHECKING:
    from tests.conftest import Deploy
    from tests.support.api_client import Client

    from .recorded import Mode, Serve


@pytest.fixture
def serve(deploy: Deploy) -> Serve:
    """Serve the tokenizer of a file with the peer's settings."""

    def client(file: str, mode: Mode, name: str | None = None) -> Client:
        tools, reasoning = PARSERS.get(file, ("none", "none"))
        return deploy(
            name or TOKENIZERS[file],
            {
                "DERENDER_SERVED_MODEL_NAME": "m",
                "DERENDER_MAX_MODEL_LEN": "40960",
                "DERENDER_LOGPROB_BYTES": mode,
                "DERENDER_TOOL_CALL_PARSER": tools,
                "DERENDER_REASONING_PARSER": reasoning,
            },
        )

    return client
