"""What vLLM 0.33 answers for itself: the models that a server lists, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NO_OUTPUT_MODE", "NO_STOP_STRINGS", "NO_STRUCTURED_OUTPUTS", "find_refusal", "list_models"]

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


def list_models(names: Sequence[str], adapters: Sequence[str] = ()) -> dict[str, Any]:
    """Return what `/v1/models` lists: all names of the model, then adapters of it."""
    root, parent = "/models/root", names[0] if names else None
    listed = [
        *({"id": name, "object": "model", "root": root, "parent": None} for name in names),
        *({"id": name, "object": "model", "root": "/adapter", "parent": parent} for name in adapters),
    ]
    return {"object": "list", "data": listed}


def find_refusal(request: dict[str, Any], models: Sequence[str], *, tokens_only: bool) -> dict[str, Any] | None:
    """Return the error that refuses a request, if it is refused.

    Args:
        request: A client's request to a render service, or a request to a generate server.
        models: The names that the server knows.
        tokens_only: Whether it is a generate server without a tokenizer (`--tokens-only`).
    """
    model = request.get("model")
    if model is not None and model not in models:
        known = ", ".join(models)
        message = f"The model `{model}` does not exist. Valid aliases: {known}."
        return _error(message, 404, "NotFoundError", "model")
    params = request.get("sampling_params", {})
    if not tokens_only:
        return None
    if params.get("stop"):
        return _error(NO_STOP_STRINGS)
    if (mode := request.get("output_mode", "tokens")) != "tokens":
        return _error(NO_OUTPUT_MODE.format(mode))
    return None if params.get("structured_outputs") is None else _error(NO_STRUCTURED_OUTPUTS)


def _error(
    message: str, code: int = 400, kind: str = "BadRequestError", param: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
