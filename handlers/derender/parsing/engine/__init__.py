"""The machine that splits an output into reasoning, content and tool calls. Imports `patterns` and `arguments`.

`format` declares formats, `grammar` compiles them, `machine` runs them, `emitter` emits what they find,
`lifecycle` is the table that decides what becomes of calls, and `state` is all that is kept between two
pieces.
"""
