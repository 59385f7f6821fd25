"""The machine that splits an output into reasoning, content and tool calls, and how formats are declared."""
