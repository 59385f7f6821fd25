"""Lines: input lines are split, read, completed with what they refer to, and answered with output lines.

Imports `stores`, `job` and `errors` of `batch`.
"""
