"""What a generate server without a tokenizer refuses, as vLLM 0.33 does with `--tokens-only`."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["NO_OUTPUT_MODE", "NO_STOP_STRINGS", "NO_STRUCTURED_OUTPUTS", "find_refusal"]

NO_STOP_STRINGS: Final = (
    "stop strings are not supported on a --tokens-only server because detokenization is disabled. "
    "Check stop strings on the coordinator, or use stop_token_ids."
)
NO_STRUCTURED_OUTPUTS: Final = (
    "Structured outputs requires a tokenizer so it can't be used with 'skip_tokenizer_init'"
)
NO_OUTPUT_MODE: Final = (
    "output_mode='{}' requires a tokenizer, but this server does not load one (--tokens-only or "
    "--skip-tokenizer-init). Send the request to a server that loads a tokenizer, or use output_mode='tokens'."
)


def find_refusal(request: dict[str, Any]) -> str | None:
    """Return the message that refuses a generate request, if it is refused."""
    params = request.get("sampling_params", {})
    if params.get("stop"):
        return NO_STOP_STRINGS
    if (mode := request.get("output_mode", "tokens")) != "tokens":
        return NO_OUTPUT_MODE.format(mode)
    if params.get("structured_outputs") is not None:
        return NO_STRUCTURED_OUTPUTS
    return None
