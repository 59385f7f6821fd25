"""What operators learn about each request: request ids, counts, log lines and metrics, never generated text.

`log_lines` and `metrics` need Powertools for AWS Lambda, so only the functions import them and `observer`.
"""
