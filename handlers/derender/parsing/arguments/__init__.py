"""Tool-call arguments in the notations that models write → JSON, in pieces. Imports `characters` only."""
