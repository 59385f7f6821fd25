r"""The format that a tokenizer's own response template describes (transformers 5.13 and later, "Response
parsing").

    {"start_anchor": "<|im_start|>assistant\n",
     "fields": {"thinking": {"open": "<think>", "close": "</think>"},
                "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "repeats": true,
                               "content": "json", "transform": {"type": "function", "function": "{content}"}},
                "content": {"close": "<|im_end|>"}}}

A field is a region between what opens it and what closes it. The field that nothing opens takes the text that
is left over. If all delimiters are literals, their control tokens are markers, as in any format. A regular
expression is written for text, so a template that has one is matched in the text, control tokens included.

The texts of a field that repeats follow each other, without its `join`.

`template` checks what a template says, `contents` reads the text of a field, `calls` makes calls of it, and
`regions` puts the format together.
"""

from .regions import from_vocabulary

__all__ = ["from_vocabulary"]
