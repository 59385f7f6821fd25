"""Streams: generate chunks → chunks of OpenAI responses, with a state that is a value."""

from .chat import chat_generation, derender_chat_stream
from .completions import completion_generation, derender_completion_stream
from .requests import Derendered

__all__ = [
    "Derendered",
    "chat_generation",
    "completion_generation",
    "derender_chat_stream",
    "derender_completion_stream",
]
