"""Streamed generations: generate chunks become the chunks of a client's stream, with a state between requests.

`generation` decodes and parses them; `chat` and `completions` write them for one client API each. Builds on
`answers`; knows nothing of HTTP.
"""

from .chat import chat_generation
from .completions import completion_generation
from .generation import Generation
from .stream import Derendered, derender_chunks

__all__ = ["Derendered", "Generation", "chat_generation", "completion_generation", "derender_chunks"]
