"""Streams: generate chunks → chunks of OpenAI responses, with a state that is a value."""

from .chat import chat_generation
from .completions import completion_generation
from .generation import Generation
from .requests import Derendered, derender_chunks

__all__ = ["Derendered", "Generation", "chat_generation", "completion_generation", "derender_chunks"]
