"""Responses of the OpenAI API, with the fields that vLLM adds (OpenAI API reference, "Chat" and
"Completions")."""
