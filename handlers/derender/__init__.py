"""Token ids from a disaggregated language model into OpenAI responses."""

__version__ = "0.1.0"
