"""Endpoints set up as the peer was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .recorded import PARSERS, TOKENIZERS

if TYPE_CHECKING:
    from tests.conftest import Deploy, Endpoint

    from .recorded import Mode, Serve


@pytest.fixture
def serve(deploy: Deploy) -> Serve:
    """File, mode of logprob bytes → an endpoint set up as the peer was."""

    def endpoint(file: str, mode: Mode, name: str | None = None) -> Endpoint:
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

    return endpoint
